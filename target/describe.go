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

// What a request says about its message is bounded by what common servers take.
const (
	describeBytes  = 8 << 10
	describeFields = 80
)

// describe writes what is known of a message into headers whose names begin with prefix.
func describe(header http.Header, prefix string, d *rehop.Delivery) {
	var bytes, leftOut int
	tell(d, func(name, value string, ok bool) {
		name, value = http.CanonicalHeaderKey(prefix+name), encoded(value)
		size := len(name) + len(": \r\n") + len(value)
		_, taken := header[name] // names differ in case alone
		if !ok || !isToken(name) || taken || bytes+size > describeBytes || len(header) >= describeFields {
			leftOut++ // rather than cut: that would be another value
			return
		}
		bytes += size
		header[name] = []string{value}
	})
	if leftOut > 0 {
		header.Set(prefix+"Left-Out", strconv.Itoa(leftOut))
	}
}

// tell passes on what is known of a message, one after the other; not ok is a value that cannot be told as text.
func tell(d *rehop.Delivery, add func(name, value string, ok bool)) {
	b := telling(add)
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

// telling adds what a message has, and nothing for what it has not.
type telling func(name, value string, ok bool)

func (b telling) text(name, value string) {
	if value != "" {
		b(name, value, true)
	}
}

func (b telling) count(name string, n int) {
	if n > 0 {
		b(name, strconv.Itoa(n), true)
	}
}

func (b telling) moment(name string, t time.Time) {
	if !t.IsZero() {
		b(name, t.UTC().Format(time.RFC3339), true)
	}
}

// plain is the value of a message's header as text; lists and tables are JSON.
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

// encoded is a value as a header can carry it: % and all but printable ASCII is percent-encoded, and so are blanks at the
// ends, which HTTP would lose.
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

// isToken reports whether s can be the name of a header that no server takes amiss.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	})
}
