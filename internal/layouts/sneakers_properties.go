package layouts

import (
	"encoding/json"
	"maps"
	"math"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/envelope"
)

// propertiesOf are the properties of a message in such a document, by Bunny's names.
func propertiesOf(l Message) []byte {
	properties := map[string]any{"delivery_mode": 2}
	if l.Transient {
		properties["delivery_mode"] = 1
	}
	if l.Priority > 0 {
		properties["priority"] = l.Priority
	}
	for name, value := range map[string]string{"content_type": l.ContentType, "message_id": l.ID, "correlation_id": l.CorrelationID,
		"reply_to": l.ReplyTo, "type": l.Type, "app_id": l.AppID} {
		if value != "" {
			properties[name] = value
		}
	}
	if headers := envelope.Clean(l.Headers); len(headers) > 0 {
		properties["headers"] = forJSON(headers)
	}
	text, err := json.Marshal(properties)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// forJSON is a header's value that JSON can represent. It is for programs in other languages: rehop
// itself leaves the headers on the message.
func forJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = forJSON(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = forJSON(value)
		}
		return out
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case float32:
		return forJSON(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return v
}

// readProperties reads the properties of a document: an object, a list of pairs (with Rails), or text as
// Ruby's inspect shows them (without Rails).
func readProperties(v any) (map[string]any, bool) {
	if text, ok := v.(string); ok {
		decoded, ok := fromLines(text)
		if !ok {
			return nil, false
		}
		if v = nil; !decode(decoded, &v) {
			return nil, false
		}
		if shown, ok := v.(string); ok {
			v, _ = readRuby(shown)
		}
	}
	switch v := exact(v).(type) {
	case map[string]any:
		return v, true
	case []any:
		properties := make(map[string]any, len(v))
		for _, e := range v {
			if pair, _ := e.([]any); len(pair) == 2 {
				properties[envelope.Text(pair[0])] = pair[1]
			}
		}
		return properties, true
	}
	return nil, false
}

// exact converts whole numbers to int64, which JSON does not have.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for name, value := range v {
			v[name] = exact(value)
		}
	case []any:
		for i, value := range v {
			v[i] = exact(value)
		}
	}
	return v
}

// restore sets the properties of a message that was published again without them.
func restore(l Message, properties map[string]any) Message {
	text := func(name, now string) string {
		if was := envelope.Text(properties[name]); was != "" && len(was) <= maxName && utf8.ValidString(was) {
			return was
		}
		return now
	}
	l.ContentType, l.ID = text("content_type", l.ContentType), text("message_id", l.ID)
	l.CorrelationID, l.ReplyTo = text("correlation_id", l.CorrelationID), text("reply_to", l.ReplyTo)
	l.Type, l.AppID = text("type", l.Type), text("app_id", l.AppID)
	if were, ok := properties["headers"].(map[string]any); ok && len(were) > 0 {
		headers := maps.Clone(were)
		maps.Copy(headers, l.Headers)
		l.Headers = headers
	}
	return l
}
