package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop"
)

// The headers that describe a message are limited to what common servers accept.
const (
	describeBytes  = 8 << 10
	describeFields = 80
)

// describe writes headers that describe a message. Their names begin with prefix.
func describe(header http.Header, prefix string, d *rehop.Delivery) {
	var bytes, leftOut int
	properties(d, func(name, value string, ok bool) {
		name, value = http.CanonicalHeaderKey(prefix+name), encoded(value)
		size := len(name) + len(": \r\n") + len(value)
		_, taken := header[name] // by a name that differs only in case
		if !ok || !isToken(name) || taken || bytes+size > describeBytes || len(header) >= describeFields {
			leftOut++ // a value that is cut off would be another value
			return
		}
		bytes += size
		header[name] = []string{value}
	})
	if leftOut > 0 {
		header.Set(prefix+"Left-Out", strconv.Itoa(leftOut))
	}
}

// properties calls add for each property and header of a message. ok is false for a value that has no form as text.
func properties(d *rehop.Delivery, add func(name, value string, ok bool)) {
	b := putter(add)
	b.text("Message-Id", d.StableID())
	b.text("Queue", d.Queue)
	b.text("Exchange", d.Exchange)
	b.text("Key", d.Key)
	b.count("Attempt", d.Attempt)
	b.count("Max-Attempts", d.MaxAttempts)
	b.count("Replays", d.Replays)
	if d.Redelivered {
		b.text("Redelivered", "true")
	}
	b.moment("First-Failed", d.FirstFailed)
	b.moment("Timestamp", d.Timestamp)
	b.text("Type", d.Type)
	b.text("Correlation-Id", d.CorrelationID)
	b.text("Reply-To", d.ReplyTo)
	b.text("App-Id", d.AppID)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		value, ok := plain(d.Headers[name])
		b("Header-"+name, value, ok)
	}
}

// putter adds values, except for empty ones.
type putter func(name, value string, ok bool)

func (b putter) text(name, value string) {
	if value != "" {
		b(name, value, true)
	}
}

func (b putter) count(name string, n int) {
	if n > 0 {
		b(name, strconv.Itoa(n), true)
	}
}

func (b putter) moment(name string, t time.Time) {
	if !t.IsZero() {
		b(name, t.UTC().Format(time.RFC3339), true)
	}
}

// plain is the value of a header as text. Lists and tables are JSON.
func plain(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case []byte:
		return string(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case []any, map[string]any:
		text, err := json.Marshal(v)
		return string(text), err == nil
	}
	return fmt.Sprint(v), true
}

// encoded is a value that an HTTP header can carry: % and everything but printable ASCII is percent-encoded, and so are spaces at the
// ends, which HTTP would remove.
func encoded(value string) string {
	if isPrintable(value) && !strings.Contains(value, "%") && strings.TrimSpace(value) == value {
		return value
	}
	var out strings.Builder
	for i := range len(value) {
		c := value[i]
		if c > ' ' && c <= '~' && c != '%' || c == ' ' && i > 0 && i < len(value)-1 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// isToken reports whether s is a name of a header that every server accepts.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	})
}
