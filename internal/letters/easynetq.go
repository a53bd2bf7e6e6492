package letters

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/envelope"
)

// easyType is part of the type of a message that EasyNetQ has wrapped, however it writes names of types.
const easyType = "EasyNetQ.SystemMessages.Error"

// easyError is the body of a message in the error queue of EasyNetQ, with the message in it.
type easyError struct {
	RoutingKey, Exchange, Queue, Exception, Message *string
	DateTime                                        string
	BasicProperties                                 *easyProperties
}

// easyProperties are the properties of the message. Fields whose type differs between versions are any.
type easyProperties struct {
	ContentType, ContentEncoding, CorrelationID, ReplyTo, MessageID, Type, AppID any

	Headers   map[string]any
	Priority  any
	Timestamp any // Unix seconds
}

// readEasyNetQ unwraps a message of EasyNetQ. All of its own properties are in the document, and those of
// the letter are the document's.
func readEasyNetQ(l Letter) (Letter, Record, bool) {
	var e easyError
	if !strings.Contains(l.Type, easyType) || !decode(l.Body, &e) || e.Message == nil || e.Exception == nil || e.Queue == nil ||
		e.Exchange == nil || e.RoutingKey == nil || e.BasicProperties == nil {
		return l, Record{}, false
	}
	p := e.BasicProperties
	r := Record{By: "EasyNetQ", Queue: *e.Queue, Exchange: *e.Exchange, Key: *e.RoutingKey, Attempts: 1, Kind: envelope.KindError,
		Error: firstLine(*e.Exception), Stack: *e.Exception, FailedAt: moment(e.DateTime)}
	opened := Letter{Source: l.Source, Headers: easyHeaders(p.Headers), Body: easyBody(*e.Message), Priority: uint8(min(easyNumber(p.Priority), math.MaxUint8)),
		ID: short(p.MessageID), ContentType: short(p.ContentType), ContentEncoding: short(p.ContentEncoding), CorrelationID: short(p.CorrelationID),
		ReplyTo: short(p.ReplyTo), Type: short(p.Type), AppID: short(p.AppID)}
	if seconds := easyNumber(p.Timestamp); seconds > 0 && seconds < maxMillis/1000 {
		opened.Timestamp = time.Unix(seconds, 0)
	}
	return opened, r, true
}

// decode is json.Unmarshal that keeps numbers unchanged.
func decode(text []byte, v any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(v) == nil && len(bytes.TrimSpace(text[decoder.InputOffset():])) == 0
}

// short is a property, which AMQP limits to 255 bytes.
func short(v any) string {
	text := envelope.Text(v)
	if len(text) > maxName {
		return ""
	}
	return text
}

func easyNumber(v any) int64 {
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil {
		return 0
	}
	return max(i, 0)
}

// easyBody is the body of the message. EasyNetQ writes it as text, or if configured so as base64. Nothing
// shows which. Bodies are JSON unless another serializer is configured, and JSON in base64 is no JSON itself.
func easyBody(message string) []byte {
	if decoded, err := base64.StdEncoding.DecodeString(message); err == nil && !json.Valid([]byte(message)) && json.Valid(decoded) {
		return decoded
	}
	return []byte(message)
}

// easyHeaders are the headers of the message. .NET receives text as bytes, so text is in base64: as such, or
// in an object with the name of the type.
func easyHeaders(headers map[string]any) map[string]any {
	out := make(map[string]any, len(headers))
	for name, value := range headers {
		if len(name) <= maxName {
			out[name] = easyValue(value)
		}
	}
	return out
}

func easyValue(v any) any {
	switch v := v.(type) {
	case string:
		if decoded, err := base64.StdEncoding.DecodeString(v); err == nil && utf8.Valid(decoded) {
			return string(decoded)
		}
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = easyValue(e)
		}
		return out
	case map[string]any:
		if typ, ok := v["$type"].(string); ok && strings.HasPrefix(typ, "System.Byte[]") {
			return easyValue(v["$value"])
		}
		return easyHeaders(v)
	}
	return v
}
