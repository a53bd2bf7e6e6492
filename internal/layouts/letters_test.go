package layouts_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// died is an entry of x-death as the broker writes it.
func died(queue, reason, exchange, key string, count int64) map[string]any {
	return map[string]any{"queue": queue, "reason": reason, "exchange": exchange, "routing-keys": []any{key}, "count": count, "time": time.Unix(1_700_000_000, 0)}
}

// deaths are headers with these entries, the newest first.
func deaths(entries ...any) map[string]any { return map[string]any{"x-death": entries} }

// hostile are headers that no broker writes, and anybody may send.
func hostile() []map[string]any {
	nested := map[string]any{}
	for range 1000 {
		nested = map[string]any{"queue": nested, "x-death": []any{nested}}
	}
	many := make([]any, 5000)
	for i := range many {
		many[i] = died("q", "rejected", "x", "k", math.MaxInt64)
	}
	return []map[string]any{
		nil, {}, {"x-death": nil}, {"x-death": "text"}, {"x-death": int64(7)}, {"x-death": []any{}}, {"x-death": []any{nil, "text", int64(3), []any{}, map[string]any{}}},
		deaths(map[string]any{"queue": int64(1), "reason": []any{}, "count": "many", "exchange": map[string]any{}, "routing-keys": "k"}),
		deaths(map[string]any{"queue": "q", "reason": "rejected", "count": nil, "routing-keys": []any{int64(1)}}),
		deaths(map[string]any{"queue": []byte("q"), "reason": []byte("rejected"), "count": uint8(3)}),
		deaths(died("q", "rejected", "x", "k", math.MinInt64)), deaths(died("q", "rejected", "x", "k", math.MaxInt64)), deaths(many...), nested, deaths(nested),
		deaths(map[string]any{"queue": "q", "reason": "rejected", "count": math.NaN()}), deaths(map[string]any{"queue": "q", "reason": "rejected", "count": math.Inf(1)}),
		deaths(died("q@retry", "expired", "x.retry", "k", math.MaxInt64)), deaths(died("delay.30s", "expired", "", "", math.MaxInt64), died("delay.1m", "expired", "", "", math.MaxInt64)),
		{"rehop-attempt": "x", "rehop-queue": int64(1), "rehop-due": math.Inf(1), "rehop-exchange": []any{}, "x-death": "x"},
		{"retry_info": strings.Repeat("[", 10_000)}, {"retry_info": "null"}, {"retry_info": "[]"}, {"retry_info": "[null]"}, {"retry_info": int64(1)}, {"retry_info": `{"failed_at":1}`},
	}
}

// bodies are what a message may hold.
func bodies() [][]byte {
	texts := []string{
		"", " ", "text", "\x00\xff", "null", "7", `"s"`, "[]", "[1,{}]", "{}", " { } ", "{\n}\n", `{"a":1}`, "{ \"a\" : 1 , \"b\" : [ 1 , { } ] }\r\n",
		`{"a":123456789012345678901234567890.10,"b":1e400,"c":-0}`, `{"a":1,"a":2}`, `{"ä":"\u00e4\ud83d\ude00","\"":"\\"}`, `{"a":"}{][,:\\\"","b":{"c":"]"}}`,
		`{"a":1`, `{"a":1}}`, `{"a":01}`, `{a:1}`, `{"a":1,}`, `{"a":NaN}`, "\xef\xbb\xbf{}", `{"":"" }`, `{"a":tru}`, `{"payload":"eA==","failed_at":"2020-01-01T00:00:00Z"}`,
		`{"payload":"eA==","failed_at":"2020-01-01T00:00:00Z","num_attempts":3}`, `{"error":"e","num_attempts":6,"failed_at":"x","payload":"!"}`,
	}
	all := [][]byte{[]byte(strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000))}
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

// rest is a message in the failed queue: what package consume does with a verdict.
func rest(f layouts.Failure, v layouts.Verdict) layouts.Message {
	l := f.Message
	l.Headers = envelope.Clean(l.Headers)
	for name, value := range v.Headers {
		l.Headers[name] = value
	}
	envelope.Failure{Attempt: f.Attempt, Error: f.Error, Kind: f.Kind, FailedAt: f.At, FirstFailed: f.At, Queue: f.Queue, Exchange: f.Exchange, Key: f.Key, InFailedQueue: true}.Write(l.Headers)
	if v.Body != nil {
		l.Body = v.Body
	}
	if v.ContentType != "" {
		l.ContentType = v.ContentType
	}
	l.Exchange, l.Key = v.Address.Exchange, v.Key
	return l
}

// roundTrip fails a message and opens it in the failed queue: it must be what it was.
func roundTrip(t *testing.T, name string, l layouts.Layout, f layouts.Failure) {
	t.Helper()
	want := f.Body
	got, failure := l.Open(rest(f, l.Fail(f)))
	if !bytes.Equal(got.Body, want) {
		t.Errorf("%s: body: got %.200q, want %.200q", name, got.Body, want)
	}
	if got.ContentType != f.ContentType {
		t.Errorf("%s: content type of %.100q: got %q, want %q", name, f.Body, got.ContentType, f.ContentType)
	}
	if got, want := envelope.Clean(got.Headers), envelope.Clean(f.Headers); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: headers: got %v, want %v", name, got, want)
	}
	if got.ID != f.ID || got.CorrelationID != f.CorrelationID || got.ReplyTo != f.ReplyTo || got.Type != f.Type || got.AppID != f.AppID {
		t.Errorf("%s: properties: got %+v, want %+v", name, got, f.Message)
	}
	if failure.Queue != f.Queue || failure.Exchange != f.Exchange || failure.Key != f.Key || failure.Attempt != f.Attempt || failure.Error != f.Error || failure.Kind != f.Kind {
		t.Errorf("%s: failure: got %+v, want queue %q, exchange %q, key %q, attempt %d, error %q, kind %q",
			name, failure, f.Queue, f.Exchange, f.Key, f.Attempt, f.Error, f.Kind)
	}
}

// A message that rehop has failed is, when it is read or replayed, the message that was published.
func TestFailedMessagesOpenAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, l := range everyLayout() {
		for _, body := range bodies() {
			for _, contentType := range []string{"", "application/json", "text/plain; charset=\"ü\""} {
				roundTrip(t, l.name, l.Layout, layouts.Failure{
					Message: layouts.Message{Queue: "q", ID: "id", Exchange: "x", Key: "k", Body: body, ContentType: contentType,
						Headers:       map[string]any{"s": "t", "n": int64(1 << 60), "f": math.Inf(-1), "b": []byte{0xff}, "at": time.Unix(1, 0), "list": []any{nil, true}, "table": map[string]any{"a": int8(1)}},
						CorrelationID: "c", ReplyTo: "r", Type: "t", AppID: "a"},
					Attempt: 3, Kind: envelope.KindError, Error: "no \x00 \xff\n\"good\"", Stack: "main.go:1", At: time.Unix(1_700_000_000, 0),
				})
			}
		}
	}
}

func FuzzFailedMessagesOpenAsTheyWere(f *testing.F) {
	for _, body := range bodies() {
		f.Add(body, "application/json", "error", "e")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType, kind, text string) {
		for _, l := range everyLayout() {
			if _, ok := l.Settings().(layout.Envelope); ok && (bytes.Contains(body, []byte("retry_count")) || bytes.Contains(body, []byte("dead_reason")) || bytes.Contains(body, []byte(`\u`))) {
				continue // it may have a record already, which is taken out
			}
			roundTrip(t, l.name, l.Layout, layouts.Failure{Message: layouts.Message{Queue: "q", Body: body, ContentType: strings.ToValidUTF8(contentType, "")},
				Attempt: 1, Kind: kind, Error: text, At: time.Unix(1, 0)})
		}
	})
}

// No header and no body brings a layout down, or makes it believe more than it can count.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	var letters []layouts.Message
	for _, headers := range hostile() {
		letters = append(letters, layouts.Message{Headers: headers, Body: []byte(`{"retry_count":1e9}`)})
	}
	for _, body := range bodies() {
		letters = append(letters, layouts.Message{Body: body})
	}
	for _, l := range everyLayout() {
		for _, letter := range letters {
			letter.Queue, letter.Exchange, letter.Key = "q", "x", "k"
			if n := l.Failures(letter); n < 0 || n > 1_000_000 {
				t.Errorf("%s: Failures: got %d, want 0 to a million", l.name, n)
			}
			l.Origin(letter)
			_ = l.Check(letter)
			if l.Stray(letter) {
				t.Errorf("%s: %.100v: got a stray, which would be dropped", l.name, letter.Headers)
			}
			opened, failure := l.Open(letter)
			if failure.Attempt < 0 || failure.Attempt > 1_000_001 {
				t.Errorf("%s: Open: got attempt %d", l.name, failure.Attempt)
			}
			if len(opened.Body) < len(letter.Body) && !bytes.Contains(letter.Body, []byte("payload")) && !bytes.Contains(letter.Body, []byte("retry_count")) {
				t.Errorf("%s: Open: got %.50q of %.50q", l.name, opened.Body, letter.Body)
			}
		}
	}
}

// A record that a layout writes is the one that it reads.
func TestRecordsAreRead(t *testing.T) {
	t.Parallel()
	for _, l := range everyLayout() {
		letter := layouts.Message{Queue: "q", Exchange: "x", Key: "k", Body: []byte(`{"a":1}`)}
		for _, n := range []int{0, 1, 2, 1000} {
			record := l.Record(letter, n)
			if n == 0 && record != nil {
				t.Errorf("%s: a record of no failures: got %v, want none", l.name, record)
			}
			written := letter
			written.Headers = record
			if record != nil {
				if got := l.Failures(written); got != n {
					t.Errorf("%s: a record of %d failures: got %d", l.name, n, got)
				}
			}
			if l.Stray(written) {
				t.Errorf("%s: got its own record taken for that of another queue", l.name)
			}
			if exchange, key := l.Origin(written); exchange != "x" || key != "k" {
				t.Errorf("%s: origin by its own record: got %q and %q, want x and k", l.name, exchange, key)
			}
		}
	}
}
