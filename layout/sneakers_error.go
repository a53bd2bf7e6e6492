package layout

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// sneakersError is the document that Sneakers publishes for a message that has failed too often. Later
// versions leave the message as it is and put the document into the header retry_info.
type sneakersError struct {
	Error        string `json:"error"`
	NumAttempts  int    `json:"num_attempts"`
	FailedAt     string `json:"failed_at"`
	Payload      string `json:"payload,omitempty"`    // base64, in lines
	Properties   any    `json:"properties,omitempty"` // base64 of JSON; later versions write the object
	ErrorClass   string `json:"error_class,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
	Backtrace    any    `json:"backtrace,omitempty"` // text, or a list of lines
}

// sneakersProperties are the message properties in such a document, by Bunny's names.
type sneakersProperties struct {
	ContentType   string         `json:"content_type,omitempty"`
	Headers       map[string]any `json:"headers,omitempty"`
	MessageID     string         `json:"message_id,omitempty"`
	CorrelationID string         `json:"correlation_id,omitempty"`
	ReplyTo       string         `json:"reply_to,omitempty"`
	Type          string         `json:"type,omitempty"`
	AppID         string         `json:"app_id,omitempty"`
}

// wrapError is the document for a failure.
func wrapError(f Failure) []byte {
	properties, err := json.Marshal(sneakersProperties{
		ContentType: f.ContentType, MessageID: f.ID, CorrelationID: f.CorrelationID, ReplyTo: f.ReplyTo, Type: f.Type, AppID: f.AppID,
	})
	if err != nil {
		properties = []byte("{}") // it has only strings: json.Marshal cannot fail
	}
	doc, err := json.Marshal(sneakersError{
		Error: f.Error, NumAttempts: f.Attempt, FailedAt: f.At.Format(time.RFC3339), Payload: inLines(f.Body),
		Properties: inLines(properties), ErrorClass: f.Kind, ErrorMessage: f.Error, Backtrace: f.Stack,
	})
	if err != nil {
		return nil
	}
	return doc
}

// lineBytes is how much of the content Ruby's Base64.encode64 puts on a line.
const lineBytes = 45

// inLines is base64 as Ruby writes it.
func inLines(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(lineBytes, len(b))
		out.WriteString(base64.StdEncoding.EncodeToString(b[:n]))
		out.WriteByte('\n')
		b = b[n:]
	}
	return out.String()
}

func fromLines(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, s))
	return b, err == nil
}

// unwrapError takes a message out of its document, whichever version wrote it. written: rehop did, and its
// own record says the rest.
func unwrapError(l Letter, f envelope.Failure, written bool) (Letter, envelope.Failure) {
	var doc sneakersError
	if info := envelope.Text(l.Headers["retry_info"]); info != "" && !written {
		// The newest comes first if there are several.
		var list []sneakersError
		if json.Unmarshal([]byte(info), &list) == nil && len(list) > 0 {
			doc = list[0]
		} else if json.Unmarshal([]byte(info), &doc) != nil {
			return l, f
		}
		l.Headers = maps.Clone(l.Headers)
		delete(l.Headers, "retry_info")
	} else {
		if json.Unmarshal(l.Body, &doc) != nil || doc.Payload == "" && doc.FailedAt == "" {
			return l, f
		}
		body, ok := fromLines(doc.Payload)
		if !ok {
			return l, f
		}
		l.Body = body
	}
	l = doc.properties().restore(l, written)
	if written {
		return l, f
	}
	f.Attempt = min(max(doc.NumAttempts, 0), maxFailures)
	f.Error = doc.Error
	f.FailedAt, _ = time.Parse(time.RFC3339, doc.FailedAt)
	f.FirstFailed = f.FailedAt
	return l, f
}

func (d sneakersError) properties() (p sneakersProperties) {
	switch v := d.Properties.(type) {
	case string:
		if text, ok := fromLines(v); ok {
			_ = json.Unmarshal(text, &p) // what cannot be read is not restored
		}
	case map[string]any:
		if text, err := json.Marshal(v); err == nil {
			_ = json.Unmarshal(text, &p)
		}
	}
	return p
}

// restore puts the properties back. rehop keeps all but the content type on the message itself.
func (p sneakersProperties) restore(l Letter, written bool) Letter {
	l.ContentType = p.ContentType
	if written {
		return l
	}
	l.ID, l.CorrelationID, l.ReplyTo, l.Type, l.AppID = or(l.ID, p.MessageID), p.CorrelationID, p.ReplyTo, p.Type, p.AppID
	if len(p.Headers) > 0 {
		headers := maps.Clone(p.Headers)
		for name, value := range l.Headers {
			headers[name] = value
		}
		for name, value := range headers { // JSON has one kind of number
			if n, ok := value.(float64); ok && n == float64(int64(n)) {
				headers[name] = int64(n)
			}
		}
		l.Headers = headers
	}
	return l
}
