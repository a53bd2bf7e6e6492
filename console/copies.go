package console

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/headerjson"
)

// copyText is a message as a text to copy. It is printable ASCII and line feeds only, so pasting it into a terminal does what it
// shows.
type copyText struct {
	ID, Name, Text string
	Missing        string // why there is no text
}

// maxCopied is how many bytes a body may have to be copied.
const maxCopied = 64 << 10

// copiedMessage is a line that rehop publish --lines reads.
type copiedMessage struct {
	ID              string         `json:"id,omitempty"`
	Exchange        string         `json:"exchange"`
	Key             string         `json:"key"`
	Headers         map[string]any `json:"headers,omitempty"`
	Body            string         `json:"body,omitempty"`
	Base64          []byte         `json:"body_base64,omitempty"`
	ContentType     string         `json:"content_type,omitempty"`
	ContentEncoding string         `json:"content_encoding,omitempty"`
	Priority        uint8          `json:"priority,omitempty"`
	Timestamp       time.Time      `json:"timestamp,omitzero"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Type            string         `json:"type,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
}

// copiesOf returns a message as JSON, as a request to the management API, and as a command.
func copiesOf(m admin.Message, to destination) []copyText {
	all := []copyText{{ID: "copy-json", Name: "JSON"}, {ID: "copy-curl", Name: "curl (management API)"}, {ID: "copy-publish", Name: "rehop publish"}}
	missing := ""
	switch {
	case len(m.Body) > maxCopied:
		missing = fmt.Sprintf("The body is larger than %s. Download it, or use export.", size(maxCopied))
	case !plainTexts(m):
		missing = "A property of the message is not UTF-8, which JSON cannot represent. Use export and rehop failed import."
	}
	line := copiedMessage{ID: m.ID, Exchange: m.Exchange, Key: m.Key, Headers: headerjson.Plain(m.Headers), ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		Priority: m.Priority, Timestamp: m.Timestamp, CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID}
	if utf8.Valid(m.Body) {
		line.Body = string(m.Body)
	} else {
		line.Base64 = m.Body
	}
	for i, text := range []func() (string, error){
		func() (string, error) { return asciiJSON(line, "  ") },
		func() (string, error) { return curlOf(m, to) },
		func() (string, error) {
			text, err := asciiJSON(line, "")
			return "rehop publish --lines <<'END'\n" + text + "\nEND", err
		},
	} {
		if all[i].Missing = missing; missing != "" {
			continue
		}
		copied, err := text()
		if err != nil {
			all[i].Missing = "The message cannot be written as JSON: " + err.Error()
			continue
		}
		all[i].Text = copied
	}
	return all
}

// plainTexts reports whether JSON can have all properties of a message.
func plainTexts(m admin.Message) bool {
	for _, text := range []string{m.ID, m.Exchange, m.Key, m.ContentType, m.ContentEncoding, m.CorrelationID, m.ReplyTo, m.Type, m.AppID} {
		if !utf8.ValidString(text) {
			return false
		}
	}
	return true
}

// curlOf is a request to RabbitMQ's management API that publishes the message. Types that JSON does not have become text.
func curlOf(m admin.Message, to destination) (string, error) {
	properties := map[string]any{"delivery_mode": 2}
	for name, text := range map[string]string{"message_id": m.ID, "content_type": m.ContentType, "content_encoding": m.ContentEncoding,
		"correlation_id": m.CorrelationID, "reply_to": m.ReplyTo, "type": m.Type, "app_id": m.AppID} {
		if text != "" {
			properties[name] = text
		}
	}
	if m.Priority > 0 {
		properties["priority"] = m.Priority
	}
	if !m.Timestamp.IsZero() {
		properties["timestamp"] = m.Timestamp.Unix()
	}
	if len(m.Headers) > 0 {
		properties["headers"] = apiValue(m.Headers)
	}
	request := map[string]any{"routing_key": m.Key, "properties": properties, "payload": string(m.Body), "payload_encoding": "string"}
	if !utf8.Valid(m.Body) {
		request["payload"], request["payload_encoding"] = base64.StdEncoding.EncodeToString(m.Body), "base64"
	}
	text, err := asciiJSON(request, "")
	if err != nil {
		return "", err
	}
	exchange := m.Exchange
	if exchange == "" {
		exchange = "amq.default"
	}
	return fmt.Sprintf("curl --user USER --header 'Content-Type: application/json' \\\n  --data %s \\\n  %s/api/exchanges/%s/%s/publish",
		quoted(text), to.address(), to.path(), quotedPath(exchange)), nil
}

// apiValue is a header as the management API takes it.
func apiValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		table := make(map[string]any, len(v))
		for name, value := range v {
			table[strings.ToValidUTF8(name, "\ufffd")] = apiValue(value)
		}
		return table
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = apiValue(value)
		}
		return list
	case []byte, time.Time:
		return valueText(v)
	}
	return v
}

// quoted is a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// quotedPath is a part of a path, which needs no quotes in a shell.
func quotedPath(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.' {
			out.WriteByte(b)
			continue
		}
		fmt.Fprintf(&out, "%%%02X", b)
	}
	if strings.Trim(text, ".") == "" { // curl would leave it out of the path
		return strings.ReplaceAll(url.PathEscape(text), ".", "%2E")
	}
	return out.String()
}

// asciiJSON writes JSON with escapes for all that is not printable ASCII.
func asciiJSON(v any, indent string) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, r := range strings.TrimSuffix(text.String(), "\n") {
		switch {
		case r == '\n' || r >= ' ' && r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String(), nil
}
