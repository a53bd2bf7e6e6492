package layouts_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func TestSneakersCounts(t *testing.T) {
	t.Parallel()
	waited := died("downloads-retry", "expired", "downloads-retry", "downloads", 7)
	for what, c := range map[string]struct {
		headers map[string]any
		want    int
	}{
		"never failed":                 {nil, 0},
		"rejected twice":               {deaths(waited, died("downloads", "rejected", "sneakers", "downloads", 2)), 2},
		"rejected and expired":         {deaths(waited, died("downloads", "rejected", "sneakers", "downloads", 2), died("downloads", "expired", "sneakers", "downloads", 1)), 3},
		"died in other queues only":    {deaths(waited, died("uploads", "rejected", "sneakers", "uploads", 4)), 0},
		"an old broker, an entry each": {deaths(map[string]any{"queue": "downloads", "reason": "rejected"}, map[string]any{"queue": "downloads", "reason": "rejected"}), 2},
	} {
		if got := of(layout.Sneakers{}).Failures(layouts.Message{Queue: "downloads", Headers: c.headers}); got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
}

// A message that comes back by the requeue exchange was published to another one.
func TestSneakersOrigin(t *testing.T) {
	t.Parallel()
	back := layouts.Message{Queue: "downloads", Exchange: "downloads-retry-requeue", Key: "k", Headers: deaths(
		died("downloads-retry", "expired", "downloads-retry", "k", 1), died("downloads", "rejected", "sneakers", "k", 1))}
	if exchange, key := of(layout.Sneakers{}).Origin(back); exchange != "sneakers" || key != "k" {
		t.Errorf("one that was rejected: got %q and %q, want sneakers and k", exchange, key)
	}
	if exchange, key := of(layout.Sneakers{}).Origin(layouts.Message{Queue: "downloads", Exchange: "x", Key: "k"}); exchange != "x" || key != "k" {
		t.Errorf("a fresh one: got %q and %q, want x and k", exchange, key)
	}
}

func TestSneakersRetries(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	f := layouts.Failure{Message: layouts.Message{Queue: "q", Exchange: "sneakers", Key: "k"}, Attempt: 3, Delay: time.Minute, At: at}
	record := deaths(map[string]any{"queue": "q", "reason": "rejected", "exchange": "sneakers", "routing-keys": []any{"k"}, "count": int64(3), "time": at, "rehop": true})
	if got, want := of(layout.Sneakers{}).Retry(f), (layouts.Verdict{Do: layouts.Wait, Headers: record}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := of(layout.Sneakers{Reject: true}).Retry(f), (layouts.Verdict{Do: layouts.Reject}); !reflect.DeepEqual(got, want) {
		t.Errorf("Reject: got %+v, want %+v", got, want)
	}
	// The retry queue has one delay. A wait of another length is rehop's.
	if got, want := of(layout.Sneakers{Reject: true, Delay: time.Second}).Retry(f), (layouts.Verdict{Do: layouts.Wait, Headers: record}); !reflect.DeepEqual(got, want) {
		t.Errorf("Reject with another wait: got %+v, want %+v", got, want)
	}
	for retries, want := range map[int]int{0: 5, 1: 1, 25: 25} {
		if got := len(of(layout.Sneakers{Retries: retries}).Delays()); got != want {
			t.Errorf("Retries %d: got %d waits, want %d", retries, got, want)
		}
	}
}

// The document has what Sneakers 2.5.0 writes, by the same names, in the same encodings.
func TestSneakersDocument(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 20)
	verdict := of(layout.Sneakers{Document: true}).Fail(layouts.Failure{
		Message: layouts.Message{Queue: "q", ID: "m-1", Exchange: "sneakers", Key: "k", Body: []byte(body), ContentType: "text/plain", CorrelationID: "c", ReplyTo: "r", Type: "T", AppID: "a", Priority: 3, Transient: true,
			Headers: map[string]any{"tenant": "a", "x-death": []any{}, "rehop-attempt": int32(5), "at": time.Unix(1, 0), "raw": []byte("b")}},
		Attempt: 6, Kind: envelope.KindPanic, Error: "boom", Stack: "a.go:1", At: time.Unix(1_700_000_000, 0).UTC()})
	if verdict.Do != layouts.Move || verdict.Address.Exchange != "q-error" || verdict.Key != "k" || verdict.ContentType != "application/json" {
		t.Errorf("got %v to %q with key %q as %q, want Move to q-error with key k as JSON", verdict.Do, verdict.Address.Exchange, verdict.Key, verdict.ContentType)
	}
	var document map[string]any
	if err := json.Unmarshal(verdict.Body, &document); err != nil {
		t.Fatalf("got %q: %v", verdict.Body, err)
	}
	for name, want := range map[string]any{"error": "boom", "num_attempts": 6.0, "failed_at": "2023-11-14T22:13:20Z", "error_class": "panic", "error_message": "boom", "backtrace": "a.go:1"} {
		if document[name] != want {
			t.Errorf("%s: got %v, want %v", name, document[name], want)
		}
	}
	payload, _ := document["payload"].(string)
	for line := range strings.Lines(payload) {
		if len(line) > 61 || !strings.HasSuffix(line, "\n") {
			t.Errorf("payload: got line %q, want lines of 60 characters", line)
		}
	}
	if got, err := base64.StdEncoding.DecodeString(payload); string(got) != body {
		t.Errorf("payload: got %q (%v), want the body", got, err)
	}
	properties, _ := document["properties"].(string)
	text, err := base64.StdEncoding.DecodeString(properties)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"app_id":"a","content_type":"text/plain","correlation_id":"c","delivery_mode":1,"headers":{"at":"1970-01-01T00:00:01Z","raw":"b","tenant":"a"},"message_id":"m-1","priority":3,"reply_to":"r","type":"T"}`
	if string(text) != want {
		t.Errorf("properties: got %s, want %s", text, want)
	}
}

// By default the body stays unchanged, and the header has what Sneakers 2.13 writes, by the same names.
func TestSneakersInfo(t *testing.T) {
	t.Parallel()
	f := layouts.Failure{
		Message: layouts.Message{Queue: "q", ID: "m-1", Exchange: "sneakers", Key: "k", Body: []byte("hi"), ContentType: "text/plain",
			Headers: map[string]any{"tenant": "a", "x-death": []any{}, "rehop-attempt": int32(5)}},
		Attempt: 6, Kind: envelope.KindPanic, Error: "boom", Stack: "a.go:1\nb.go:2", At: time.Unix(1_700_000_000, 0).UTC()}
	info := func(f layouts.Failure) string {
		t.Helper()
		v := of(layout.Sneakers{}).Fail(f)
		if v.Do != layouts.Move || v.Address.Exchange != "q-error" || v.Key != "k" || v.Body != nil || v.ContentType != "" {
			t.Errorf("got %+v, want a move to q-error with the body as it is", v)
		}
		text, _ := v.Headers["retry_info"].(string)
		return text
	}
	first := `{"error":"boom","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z","properties":{"content_type":"text/plain","delivery_mode":2,"headers":{"tenant":"a"},"message_id":"m-1"},` +
		`"error_class":"panic","error_message":"boom","backtrace":["a.go:1","b.go:2"],"rehop":true}`
	if got := info(f); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	// Put back with the record on it, and failed again: a list, which Sneakers reads too.
	f.Headers["retry_info"] = first
	if got, want := info(f), "["+first+","+first+"]"; got != want {
		t.Errorf("the second time: got %s, want %s", got, want)
	}
	f.Headers["retry_info"] = "a header of the application's"
	if got := info(f); got != "" {
		t.Errorf("a header of that name that is no record: got %s in its place, want it left as it is", got)
	}
	roundTrip(t, "sneakers", of(layout.Sneakers{}), f)
	// All headers have one frame: those of the message come first.
	delete(f.Headers, "retry_info")
	f.Headers["large"] = strings.Repeat("x", 60_000)
	if got, want := info(f), `{"error":"boom","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z","error_class":"panic","rehop":true}`; got != want {
		t.Errorf("a message with large headers: got %.300s, want %s", got, want)
	}
}

// RabbitMQ refuses what is larger than its limit. A message that would be so only in its document is kept without one.
func TestSneakersDocumentIsNeverTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 16 << 20
	fits := limit/62*45 - 4096
	for size, wrapped := range map[int]bool{1 << 20: true, fits + 4000: false, fits + 8192: false, limit: false} {
		f := layouts.Failure{Message: layouts.Message{Queue: "q", Body: make([]byte, size), ContentType: "text/plain"}, Attempt: 1, Kind: envelope.KindError, At: time.Unix(1, 0)}
		verdict := of(layout.Sneakers{Document: true}).Fail(f)
		if (verdict.Body != nil) != wrapped || len(verdict.Body) > limit {
			t.Errorf("a body of %d bytes: got a document of %d, want one %t, and never one that crosses 16 MiB", size, len(verdict.Body), wrapped)
		}
	}
	roundTrip(t, "sneakers", of(layout.Sneakers{Document: true}), layouts.Failure{Message: layouts.Message{Queue: "q", Body: make([]byte, limit), ContentType: "text/plain"}, Attempt: 1, Kind: envelope.KindError})
	// Such a message may itself look like a document.
	body := `{"error":"e","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z","payload":"aGk=\n"}`
	got, _ := of(layout.Sneakers{}).Open(layouts.Message{Queue: "q", Body: []byte(body), Headers: map[string]any{envelope.Queue: "q"}})
	if string(got.Body) != body {
		t.Errorf("a document that rehop has failed, and not wrapped: got %q, want it as it is", got.Body)
	}
}

// What Sneakers itself has failed opens as it was, whichever version wrote it, with and without Rails.
func TestSneakersOpens(t *testing.T) {
	t.Parallel()
	real, err := os.ReadFile("testdata/sneakers_2.5.0.json")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0).UTC()
	failure := envelope.Failure{Queue: "downloads", Key: "k", Attempt: 6, Kind: "error", Error: "boom", Stack: "a.rb:1, b.rb:2", FailedAt: at, FirstFailed: at}
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	document := func(properties string) []byte {
		return []byte(`{"error":"boom","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z","payload":"aGk=\n","properties":` + properties + `,"backtrace":"a.rb:1, b.rb:2"}`)
	}
	info := `{"error":"boom","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z","properties":{"content_type":"text/plain","headers":{"tenant":"a","n":9007199254740993},"message_id":"m-1"},"backtrace":["a.rb:1, b.rb:2"]}`
	restored := map[string]any{"tenant": "a", "n": int64(9007199254740993)}
	from := func(exchange string) envelope.Failure {
		f := failure
		f.Exchange = exchange
		return f
	}
	for what, c := range map[string]struct {
		body        string
		headers     map[string]any
		wantBody    string
		wantType    string
		wantID      string
		wantHeaders map[string]any
		want        envelope.Failure
	}{
		"2.5.0 without Rails": {body: string(real), wantBody: strings.Repeat(`{"id":1}`, 10), wantType: "application/json", wantID: "m-1",
			wantHeaders: map[string]any{"tenant": "müller \"& co\"\n\t\x1b1#{x}", "n": int64(9007199254740993), "f": 1.5, "yes": true, "none": nil, "raw": "\x00\xff"},
			want:        from("sneakers")},
		"2.5.0 with Rails": {body: string(document(`"` + encode(`[["content_type","text/plain"],["headers",{"tenant":"a","n":9007199254740993}],["message_id","m-1"]]`) + `"`)),
			wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: failure},
		"2.5.0 with properties as JSON": {body: string(document(`"` + encode(`{"content_type":"text/plain","headers":{"tenant":"a","n":9007199254740993},"message_id":"m-1"}`) + `"`)),
			wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: failure},
		"2.5.0 with properties that nobody can read": {body: string(document(`"` + encode("#<Object>") + `"`)), wantBody: "hi", want: failure},
		"later": {body: "hi", headers: map[string]any{"retry_info": info}, wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: failure},
		"later, failed before": {body: "hi", headers: map[string]any{"retry_info": "[" + info + `,{"error":"older","num_attempts":6,"failed_at":"2020-11-14T22:13:20Z"}]`},
			wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: failure},
		// Ruby's Array() of a hash is a list of pairs, so this is what the second failure leaves.
		"later, put back and failed again": {body: "hi", headers: map[string]any{"retry_info": `[{"error":"boom","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z",` +
			`"properties":{"content_type":"application/octet-stream","delivery_mode":2,"headers":{"x-death":[{"queue":"downloads","exchange":"","count":5}]}},"backtrace":["a.rb:1, b.rb:2"]},` +
			`["error","older"],["num_attempts",6],["failed_at","2020-11-14T22:13:20Z"],["properties",{"content_type":"text/plain","headers":{"tenant":"a","n":9007199254740993,` +
			`"x-death":[{"queue":"downloads","exchange":"work","count":5}]},"message_id":"m-1"}],["backtrace",["c.rb:3"]]]`},
			wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: from("work")},
		"later, failed three times": {body: "hi", headers: map[string]any{"retry_info": `[{"error":"boom","num_attempts":6,"failed_at":"2023-11-14T22:13:20Z","properties":{},"backtrace":["a.rb:1, b.rb:2"]},` +
			`{"error":"second","num_attempts":6,"failed_at":"2021-11-14T22:13:20Z","properties":{"content_type":"text/html"}},["error","older"],["properties",{"content_type":"text/plain",` +
			`"headers":{"tenant":"a","n":9007199254740993},"message_id":"m-1"}]]`},
			wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: failure},
		"later, with a record that Sneakers could not read": {body: "hi", headers: map[string]any{"retry_info": `[` + info + `,["error","Failed to parse retry info"]]`},
			wantBody: "hi", wantType: "text/plain", wantID: "m-1", wantHeaders: restored, want: failure},
		"a message that rehop had failed before": {
			body:     string(document(`{"headers":{"rehop-queue":"downloads","rehop-exchange":"work","rehop-key":"k0","rehop-attempt":2,"rehop-first-failed":1600000000000,"rehop-replays":1,"x-death":[]}}`)),
			wantBody: "hi", want: envelope.Failure{Queue: "downloads", Exchange: "work", Key: "k0", Attempt: 6, Kind: "error", Error: "boom", Stack: "a.rb:1, b.rb:2",
				FailedAt: at, FirstFailed: time.Unix(1_600_000_000, 0), Replays: 1}},
		"a timeout": {body: `{"error":"timeout","num_attempts":1,"failed_at":"x","payload":""}`, wantBody: "", want: envelope.Failure{Queue: "downloads", Key: "k", Attempt: 1, Kind: "timeout", Error: "timeout"}},
		"an error that is no text": {body: `{"error":{"a":[1]},"num_attempts":1e99,"failed_at":"x","payload":"","backtrace":[1,null]}`,
			want: envelope.Failure{Queue: "downloads", Key: "k", Attempt: 0, Kind: "error", Error: `{"a":[1]}`, Stack: "1\n"}},
		"no document":         {body: `{"id":1}`, wantBody: `{"id":1}`, want: envelope.Failure{Queue: "downloads", Key: "k", Kind: "error"}},
		"nearly a document":   {body: `{"payload":"aGk=","failed_at":"2023-11-14T22:13:20Z"}`, wantBody: `{"payload":"aGk=","failed_at":"2023-11-14T22:13:20Z"}`, want: envelope.Failure{Queue: "downloads", Key: "k", Kind: "error"}},
		"a document and more": {body: string(document("{}")) + "x", wantBody: string(document("{}")) + "x", want: envelope.Failure{Queue: "downloads", Key: "k", Kind: "error"}},
		"a payload that is not base64": {body: `{"error":"boom","num_attempts":6,"failed_at":"x","payload":"!"}`, wantBody: `{"error":"boom","num_attempts":6,"failed_at":"x","payload":"!"}`,
			want: envelope.Failure{Queue: "downloads", Key: "k", Kind: "error"}},
	} {
		got, f := of(layout.Sneakers{}).Open(layouts.Message{Queue: "downloads", Exchange: "downloads-error", Key: "k", Headers: c.headers, Body: []byte(c.body)})
		if string(got.Body) != c.wantBody || got.ContentType != c.wantType || got.ID != c.wantID {
			t.Errorf("%s: got body %q, type %q, id %q, want %q, %q, %q", what, got.Body, got.ContentType, got.ID, c.wantBody, c.wantType, c.wantID)
		}
		if clean := envelope.Clean(got.Headers); len(clean)+len(c.wantHeaders) > 0 && !reflect.DeepEqual(clean, c.wantHeaders) {
			t.Errorf("%s: headers: got %#v, want %#v", what, clean, c.wantHeaders)
		}
		if f.Attempt > 1_000_000 || what == "an error that is no text" {
			f.Attempt = c.want.Attempt // how a float that is no count is read is package envelope's affair
		}
		if !f.FailedAt.Equal(c.want.FailedAt) || !f.FirstFailed.Equal(c.want.FirstFailed) {
			t.Errorf("%s: got times %v and %v, want %v and %v", what, f.FailedAt, f.FirstFailed, c.want.FailedAt, c.want.FirstFailed)
		}
		f.FailedAt, f.FirstFailed, c.want.FailedAt, c.want.FirstFailed = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if !reflect.DeepEqual(f, c.want) {
			t.Errorf("%s: failure: got %+v, want %+v", what, f, c.want)
		}
	}
}
