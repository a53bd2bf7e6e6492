package layouts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// sneakersError is the record of Sneakers for a message that has failed too often: up to 2.11 a document
// with the message in it, since then (December 2018) the header retry_info on the unchanged message.
//
// Fields whose type differs between versions are any.
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

// wrapError is the document for a failure; nil if it would be too large for the broker. Then the message
// stays unchanged in the failed queue, and rehop's own record has the reason.
func wrapError(f Failure) []byte {
	if !mayGrow(len(f.Body), linesSize(len(f.Body))) {
		return nil
	}
	payload := inLines(f.Body)
	document, err := json.Marshal(sneakersError{
		Error: f.Error, NumAttempts: f.Attempt, FailedAt: f.At.Format(time.RFC3339), Payload: &payload,
		Properties: inLines(propertiesOf(f.Message)), ErrorClass: f.Kind, ErrorMessage: f.Error, Backtrace: f.Stack, Rehop: true,
	})
	if err != nil || !mayGrow(len(f.Body), len(document)) {
		return nil
	}
	return document
}

// maxInfo limits the header retry_info that rehop writes: all headers of a message share one frame.
const maxInfo = 32 << 10

// infoOf is the header retry_info for a failure, with the records of earlier failures behind it. A header
// of that name that Sneakers has not written stays, and only rehop's own record has the reason.
func infoOf(f Failure) map[string]any {
	var earlier []sneakersError
	if had, ok := f.Headers[retryInfo]; ok {
		if earlier, ok = recordsIn(envelope.Text(had)); !ok {
			return nil
		}
	}
	f.Message = withoutInfo(f.Message) // as Sneakers does: records do not nest
	record := sneakersError{
		Error: f.Error, NumAttempts: f.Attempt, FailedAt: f.At.Format(time.RFC3339), Properties: json.RawMessage(propertiesOf(f.Message)),
		ErrorClass: f.Kind, ErrorMessage: f.Error, Rehop: true,
	}
	if f.Stack != "" {
		record.Backtrace = strings.Split(f.Stack, "\n")
	}
	brief := record // without what is on the message anyway, and without the backtrace
	brief.Properties, brief.Backtrace, brief.ErrorMessage = nil, nil, nil
	forms := []any{record, brief}
	if len(earlier) > 0 {
		forms = slices.Insert(forms, 0, any(append([]sneakersError{record}, earlier...)))
	}
	for _, written := range forms {
		if text, err := json.Marshal(written); err == nil && len(text) <= maxInfo {
			return map[string]any{retryInfo: string(text)}
		}
	}
	return nil
}

// unwrapOwn restores a message from rehop's record. One that was too large for a document is unchanged.
func unwrapOwn(l Message) Message {
	if records, ok := recordsIn(envelope.Text(l.Headers[retryInfo])); ok && records[0].Rehop {
		l = withoutInfo(l)
		if len(records) > 1 { // it was replayed with the record on it; Sneakers had removed its properties
			l = restore(l, oldest(records[1:]))
		}
		return l
	}
	document, body, ok := documentIn(l.Body)
	if !ok || !document.Rehop {
		return l
	}
	l.Body = body
	properties, _ := readProperties(document.Properties)
	l.ContentType = envelope.Text(properties["content_type"])
	return l
}

// withoutInfo is a message without the header retry_info.
func withoutInfo(l Message) Message {
	l.Headers = maps.Clone(l.Headers)
	delete(l.Headers, retryInfo)
	return l
}

// unwrapError restores a message from the record of any version of Sneakers.
func unwrapError(l Message) (Message, envelope.Failure) {
	if l, f, ok := OpenSneakers(l); ok {
		return l, f
	}
	return l, envelope.Failure{Queue: l.Queue, Exchange: l.Exchange, Key: l.Key, Kind: envelope.KindError}
}

// OpenSneakers restores a message from the record of any version of Sneakers. False: it has no such record, and is returned unchanged.
func OpenSneakers(l Message) (Message, envelope.Failure, bool) {
	records, ok := recordsIn(envelope.Text(l.Headers[retryInfo]))
	if ok {
		l = withoutInfo(l)
	} else {
		document, body, ok := documentIn(l.Body)
		if !ok {
			return l, envelope.Failure{}, false
		}
		l.Body, l.ContentType = body, ""
		records = []sneakersError{document}
	}
	l = restore(l, oldest(records))
	f := envelope.Read(l.Headers, l.Exchange, l.Key) // rehop may have failed it before
	if f.Queue == "" {
		f.Queue = l.Queue
		if d, ok := newestDeath(l.Headers, l.Queue); ok {
			f.Exchange = d.exchange
		}
	}
	newest := records[0]
	f.Due = time.Time{}
	f.Attempt, f.Kind, f.Error = envelope.Count(exact(newest.NumAttempts)), envelope.KindError, envelope.Bounded(shown(newest.Error), envelope.MaxErrorText)
	if f.Error == "timeout" {
		f.Kind = envelope.KindTimeout
	}
	f.Stack = envelope.Bounded(shown(newest.Backtrace), envelope.MaxErrorText)
	f.FailedAt, _ = time.Parse(time.RFC3339, envelope.Text(newest.FailedAt))
	if f.FirstFailed.IsZero() {
		f.FirstFailed = f.FailedAt
	}
	return l, f, true
}

// retryInfo is the header of later versions.
const retryInfo = "retry_info"

// recordsIn reads the header retry_info, the newest record first. It is an object after the first
// failure. When such a message is replayed and fails again, Sneakers makes a list of it in Ruby's way:
// the new object, and then the members of the old one, a pair of name and value for each. Later failures
// put further objects in front.
func recordsIn(text string) (records []sneakersError, ok bool) {
	var one sneakersError
	if decode([]byte(text), &one) {
		return []sneakersError{one}, one.isComplete()
	}
	var list []json.RawMessage
	if !decode([]byte(text), &list) {
		return nil, false
	}
	members := make(map[string]json.RawMessage)
	for _, e := range list {
		var pair []json.RawMessage
		var name string
		if decode(e, &pair) {
			if len(pair) == 2 && decode(pair[0], &name) {
				members[name] = pair[1]
			}
			continue
		}
		if one = (sneakersError{}); decode(e, &one) {
			records = append(records, one)
		}
	}
	if len(members) > 0 {
		if object, err := json.Marshal(members); err == nil {
			if one = (sneakersError{}); decode(object, &one) {
				records = append(records, one)
			}
		}
	}
	return records, len(records) > 0 && records[0].isComplete()
}

// oldest are the properties of a message with these records. Sneakers removes all properties from a
// message that it gives up, so those of the oldest record are the message's own, and further ones of
// later records came later.
func oldest(records []sneakersError) map[string]any {
	all, headers := make(map[string]any), make(map[string]any)
	for _, r := range slices.Backward(records) {
		properties, _ := readProperties(r.Properties)
		for name, value := range properties {
			if _, older := all[name]; !older && name != "headers" {
				all[name] = value
			}
		}
		were, _ := properties["headers"].(map[string]any)
		for name, value := range were {
			if _, older := headers[name]; !older && name != retryInfo {
				headers[name] = value
			}
		}
	}
	all["headers"] = headers
	return all
}

// documentIn is the document that a body is, and the body that it has.
func documentIn(text []byte) (document sneakersError, body []byte, ok bool) {
	if !decode(text, &document) || !document.isComplete() || document.Payload == nil {
		return document, nil, false
	}
	body, ok = fromLines(*document.Payload)
	return document, body, ok
}

// decode is json.Unmarshal that keeps numbers unchanged.
func decode(text []byte, v any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(v) == nil && len(bytes.TrimSpace(text[decoder.InputOffset():])) == 0
}

// isComplete reports whether the document has what all have. A message that only looks like one must
// not lose its body.
func (d sneakersError) isComplete() bool {
	_, counted := d.NumAttempts.(json.Number)
	_, failedAt := d.FailedAt.(string)
	return counted && failedAt
}

// shown is a value as readable text.
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
	for line := range slices.Chunk(b, lineBytes) {
		out = append(base64.StdEncoding.AppendEncode(out, line), '\n')
	}
	return string(out)
}

// linesSize is about how many bytes n bytes take in lines, in JSON.
func linesSize(n int) int { return n / lineBytes * (lineChars + len(`\n`)) }

func fromLines(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s) // which skips line breaks
	return b, err == nil
}
