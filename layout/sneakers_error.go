package layout

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// sneakersError is the document that Sneakers publishes for a message that has failed too often. Later
// versions leave the message as it is and put the document into the header retry_info.
//
// What can be of several types, in one version or another, is any.
type sneakersError struct {
	Error        any     `json:"error"`
	NumAttempts  any     `json:"num_attempts"`
	FailedAt     any     `json:"failed_at"`
	Payload      *string `json:"payload,omitempty"`    // base64, in lines
	Properties   any     `json:"properties,omitempty"` // base64 of JSON or of what Ruby shows; later versions write the object
	ErrorClass   any     `json:"error_class,omitempty"`
	ErrorMessage any     `json:"error_message,omitempty"`
	Backtrace    any     `json:"backtrace,omitempty"` // text, or a list of lines
	// Rehop: rehop wrote it, so its payload is the body.
	Rehop bool `json:"rehop,omitempty"`
}

// wrapError is the document for a failure; nil if it would be too large for the broker. Then the message rests as it
// is, and rehop's own record says why.
func wrapError(f Failure) []byte {
	if !mayGrow(len(f.Body), linesSize(len(f.Body))) {
		return nil
	}
	payload := inLines(f.Body)
	document, err := json.Marshal(sneakersError{
		Error: f.Error, NumAttempts: f.Attempt, FailedAt: f.At.Format(time.RFC3339), Payload: &payload,
		Properties: inLines(propertiesOf(f.Letter)), ErrorClass: f.Kind, ErrorMessage: f.Error, Backtrace: f.Stack, Rehop: true,
	})
	if err != nil || !mayGrow(len(f.Body), len(document)) {
		return nil
	}
	return document
}

// unwrapOwn takes a message out of a document that rehop wrote. One that was too large for that is as it was.
func unwrapOwn(l Letter) Letter {
	document, ok := documentIn(l.Body)
	if !ok || !document.Rehop {
		return l
	}
	body, ok := fromLines(*document.Payload)
	if !ok {
		return l
	}
	l.Body = body
	properties, _ := readProperties(document.Properties)
	l.ContentType = envelope.Text(properties["content_type"])
	return l
}

// unwrapError takes a message out of its document, whichever version of Sneakers wrote it.
func unwrapError(l Letter) (Letter, envelope.Failure) {
	bare := envelope.Failure{Queue: l.Queue, Exchange: l.Exchange, Key: l.Key, Kind: envelope.KindError}
	document, ok := documentBeside(l.Headers)
	if ok {
		l.Headers = maps.Clone(l.Headers)
		delete(l.Headers, retryInfo)
	} else {
		if document, ok = documentIn(l.Body); !ok {
			return l, bare
		}
		body, ok := fromLines(*document.Payload)
		if !ok {
			return l, bare
		}
		l.Body, l.ContentType = body, ""
	}
	if properties, ok := readProperties(document.Properties); ok {
		l = restore(l, properties)
	}
	f := envelope.Read(l.Headers, l.Exchange, l.Key) // rehop may have failed it before
	if f.Queue == "" {
		f.Queue = l.Queue
		if d, ok := deathIn(l.Headers, l.Queue); ok {
			f.Exchange = d.exchange
		}
	}
	f.Due = time.Time{}
	f.Attempt, f.Kind, f.Error = envelope.Count(exact(document.NumAttempts)), envelope.KindError, envelope.Bounded(shown(document.Error), envelope.MaxErrorText)
	if f.Error == "timeout" {
		f.Kind = envelope.KindTimeout
	}
	f.Stack = envelope.Bounded(shown(document.Backtrace), envelope.MaxErrorText)
	f.FailedAt, _ = time.Parse(time.RFC3339, envelope.Text(document.FailedAt))
	if f.FirstFailed.IsZero() {
		f.FirstFailed = f.FailedAt
	}
	return l, f
}

// retryInfo is the header of later versions. If there are several documents, the newest comes first.
const retryInfo = "retry_info"

func documentBeside(headers map[string]any) (document sneakersError, ok bool) {
	text := []byte(envelope.Text(headers[retryInfo]))
	var list []sneakersError
	if decode(text, &list) && len(list) > 0 {
		return list[0], list[0].isComplete()
	}
	ok = decode(text, &document) && document.isComplete()
	return document, ok
}

// documentIn is the document that a body is.
func documentIn(body []byte) (document sneakersError, ok bool) {
	ok = decode(body, &document) && document.isComplete() && document.Payload != nil
	return document, ok
}

// decode is json.Unmarshal that keeps numbers as they are written.
func decode(text []byte, v any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(v) == nil && len(bytes.TrimSpace(text[decoder.InputOffset():])) == 0
}

// isComplete reports whether the document has what all have. A message that only looks a little like one would be
// lost if something in it were taken for its body.
func (d sneakersError) isComplete() bool {
	_, counted := d.NumAttempts.(json.Number)
	_, failedAt := d.FailedAt.(string)
	return counted && failedAt
}

// shown is a value as people read it.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		lines := make([]string, len(v))
		for i, line := range v {
			lines[i] = shown(line)
		}
		return strings.Join(lines, "\n")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// Ruby's Base64.encode64 puts 45 bytes of the content on a line, which makes 60 characters.
const (
	lineBytes = 45
	lineChars = 60
)

// inLines is base64 as Ruby writes it.
func inLines(b []byte) string {
	out := make([]byte, 0, len(b)/lineBytes*(lineChars+1)+lineChars+1)
	for len(b) > 0 {
		n := min(lineBytes, len(b))
		out = append(base64.StdEncoding.AppendEncode(out, b[:n]), '\n')
		b = b[n:]
	}
	return string(out)
}

// linesSize is about how many bytes n bytes take in lines, in JSON.
func linesSize(n int) int { return n / lineBytes * (lineChars + len(`\n`)) }

func fromLines(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s) // which passes over the ends of lines
	return b, err == nil
}
