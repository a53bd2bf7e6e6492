package layouts_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

func TestEnvelopeCounts(t *testing.T) {
	t.Parallel()
	rejections := deaths(died("order.retry.q", "expired", "order.retry.x", "order.retry", 2), died("order.main.q", "rejected", "order.main.x", "order.created", 2))
	for what, c := range map[string]struct {
		body    string
		headers map[string]any
		want    int
	}{
		"no count":                      {`{"id":1}`, nil, 0},
		"a count":                       {`{"id":1,"retry_count":3}`, nil, 3},
		"a count with blanks":           {"{ \"retry_count\" :\n3 }", nil, 3},
		"a count and rejections":        {`{"retry_count":3}`, rejections, 5},
		"rejections alone":              {"not JSON", rejections, 2},
		"the last of several":           {`{"retry_count":1,"retry_count":4}`, nil, 4},
		"a name with escapes":           {`{"retry\u005fcount":4}`, nil, 4},
		"somebody else's count":         {`{"order":{"retry_count":4},"list":["retry_count",4]}`, nil, 0},
		"a name in other letters":       {`{"Retry_Count":4}`, nil, 0},
		"text":                          {`{"retry_count":"4"}`, nil, 0},
		"null":                          {`{"retry_count":null}`, nil, 0},
		"a list":                        {`{"retry_count":[4]}`, nil, 0},
		"true":                          {`{"retry_count":true}`, nil, 0},
		"less than none":                {`{"retry_count":-4}`, nil, 0},
		"a fraction":                    {`{"retry_count":2.9}`, nil, 2},
		"more than can be":              {`{"retry_count":1e308}`, nil, 1_000_000},
		"more than a float can be":      {`{"retry_count":1e999}`, nil, 1_000_000},
		"less than a float can be":      {`{"retry_count":-1e999}`, nil, 0},
		"a number of very many digits":  {`{"retry_count":` + strings.Repeat("9", 1000) + `}`, nil, 1_000_000},
		"no object":                     {`[{"retry_count":4}]`, nil, 0},
		"an object and more":            {`{"retry_count":4}{}`, nil, 0},
		"an object that is cut off":     {`{"retry_count":4`, nil, 0},
		"deeper than anybody would go":  {strings.Repeat(`{"retry_count":`, 100_000) + "1" + strings.Repeat("}", 100_000), nil, 0},
		"rejected in another queue":     {`{}`, deaths(died("other.main.q", "rejected", "", "", 2)), 0},
		"expired in its queue":          {`{}`, deaths(died("order.main.q", "expired", "", "", 2)), 0},
		"more of both than can be":      {`{"retry_count":1e9}`, deaths(died("order.main.q", "rejected", "", "", 1<<40)), 1_000_000},
		"the end of a very long string": {`{"a":"` + strings.Repeat(`\\\"`, 10_000) + `","retry_count":7}`, nil, 7},
	} {
		if got := of(layout.Envelope{}).Failures(layouts.Message{Queue: "order.main.q", Body: []byte(c.body), Headers: c.headers}); got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
}

func TestEnvelopeRetries(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":1}`:                    `{"id":1,"retry_count":2}`,
		`{}`:                          `{"retry_count":2}`,
		"{\n  \"id\": 1\n}\n":         "{\n  \"id\": 1,\"retry_count\":2\n}\n",
		`{"retry_count": 1, "id": 1}`: `{"retry_count": 2, "id": 1}`,
		`{"retry_count":0,"a":1,"retry_count":1}`:      `{"retry_count":2,"a":1}`,
		`{"a":1,"retry\u005fcount":{"x":[]}}`:          `{"a":1,"retry\u005fcount":2}`,
		`{"price":1.10,"big":12345678901234567890123}`: `{"price":1.10,"big":12345678901234567890123,"retry_count":2}`,
		`[1]`: "", "text": "", "": "", `{"a":NaN}`: "",
	} {
		got := of(layout.Envelope{}).Retry(layouts.Failure{Message: layouts.Message{Queue: "order.main.q", Body: []byte(body)}, Attempt: 2})
		if got.Do != layouts.Wait || got.Headers != nil || string(got.Body) != want || want == "" && got.Body != nil {
			t.Errorf("%s: got %v with body %s, want Wait with %s", body, got.Do, got.Body, want)
		}
	}
	if got := of(layout.Envelope{}).Delays(); !reflect.DeepEqual(got, []time.Duration{15e9, 15e9, 15e9, 15e9, 15e9}) {
		t.Errorf("waits: got %v, want five of 15 s", got)
	}
}

func TestEnvelopeFails(t *testing.T) {
	t.Parallel()
	noID := of(layout.Envelope{RequireID: true}).Check(layouts.Message{})
	if noID == nil || of(layout.Envelope{RequireID: true}).Check(layouts.Message{ID: "x"}) != nil || of(layout.Envelope{}).Check(layouts.Message{}) != nil {
		t.Fatalf("a message without an id: got %v, want an error only where an id is required", noID)
	}
	for _, c := range []struct{ kind, text, want string }{
		{envelope.KindError, "e", "retry_limit"}, {envelope.KindTimeout, "e", "retry_limit"}, {envelope.KindPanic, "e", "retry_limit"},
		{envelope.KindPermanent, "e", "business_rejected"}, {envelope.KindPermanent, noID.Error(), "no_message_id"},
		{envelope.KindDecode, "e", "decode"}, {envelope.KindCrash, "e", "crash"}, {"a \"kind\"\x01 of\n their own\xff", "e", "a \"kind\"\x01 of\n their own\ufffd"},
	} {
		got := of(layout.Envelope{}).Fail(layouts.Failure{Message: layouts.Message{Queue: "order.main.q", Key: "order.created", Body: []byte(`{"id":1,"retry_count":5}`)}, Kind: c.kind, Error: c.text})
		var body struct {
			ID     int    `json:"id"`
			Count  int    `json:"retry_count"`
			Reason string `json:"dead_reason"`
		}
		if err := json.Unmarshal(got.Body, &body); err != nil || body.Reason != c.want || body.ID != 1 || body.Count != 5 {
			t.Errorf("kind %q: got %s (%v), want reason %q and the rest as it was", c.kind, got.Body, err, c.want)
		}
		if got.Do != layouts.Move || got.Address.Exchange != "order.dead.x" || got.ContentType != "" {
			t.Errorf("kind %q: got %v to %q, want Move to order.dead.x", c.kind, got.Do, got.Address.Exchange)
		}
	}
}

func TestEnvelopeOpens(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	failure := func(attempt int, kind, text string) envelope.Failure {
		return envelope.Failure{Queue: "order.main.q", Exchange: "order.main.x", Key: "order.created", Attempt: attempt, Kind: kind, Error: text}
	}
	for what, c := range map[string]struct {
		body     string
		headers  map[string]any
		wantBody string
		want     envelope.Failure
	}{
		"at its limit":             {`{"id": 1, "retry_count": 5, "dead_reason": "retry_limit"}`, nil, `{"id": 1}`, failure(6, "error", "retry_limit")},
		"rejected by the business": {`{"id": 1, "dead_reason": "business_rejected"}`, nil, `{"id": 1}`, failure(1, "permanent", "business_rejected")},
		"without an id":            {`{"dead_reason":"no_message_id"}`, nil, `{}`, failure(1, "permanent", "no_message_id")},
		"in Chinese":               {`{"dead_reason":"\u8d85\u8fc7 \ud83d\ude00"}`, nil, `{}`, failure(1, "error", "超过 😀")},
		"no text":                  {`{"dead_reason":{"code":7}}`, nil, `{}`, failure(1, "error", `{"code":7}`)},
		"no reason":                {`{"retry_count":2,"id":1}`, nil, `{"id":1}`, failure(3, "error", "")},
		"no object":                {`gone`, nil, `gone`, failure(1, "error", "")},
		"published with the headers that it had": {`{"retry_count":1}`, deaths(died("order.retry.q", "expired", "order.retry.x", "order.retry", 1), died("order.main.q", "rejected", "order.main.x", "order.created", 1)), `{}`,
			failure(3, "error", "")},
		"dead-lettered by the quorum queue": {`{"id":1}`, deaths(died("order.main.q", "delivery_limit", "order.main.x", "order.created", 1)), `{"id":1}`,
			envelope.Failure{Queue: "order.main.q", Exchange: "order.main.x", Key: "order.created", Kind: "dead", Error: "dead-lettered by the broker: delivery_limit", FailedAt: at, FirstFailed: at}},
	} {
		got, f := of(layout.Envelope{}).Open(layouts.Message{Queue: "order.main.q", Exchange: "order.dead.x", Body: []byte(c.body), Headers: c.headers})
		if string(got.Body) != c.wantBody {
			t.Errorf("%s: body: got %s, want %s", what, got.Body, c.wantBody)
		}
		if !reflect.DeepEqual(f, c.want) {
			t.Errorf("%s: failure: got %+v, want %+v", what, f, c.want)
		}
	}
	_, f := of(layout.Envelope{}).Open(layouts.Message{Queue: "order.main.q", Body: []byte(`{"dead_reason":"` + strings.Repeat("x", 1<<20) + `"}`)})
	if len(f.Error) > envelope.MaxErrorText {
		t.Errorf("a reason of a megabyte: got %d bytes, want at most %d", len(f.Error), envelope.MaxErrorText)
	}
}

// The retry queue of one queue leads to all that are bound with the same key.
func TestEnvelopeStrays(t *testing.T) {
	t.Parallel()
	waited := died("order.retry.q", "expired", "order.retry.x", "order.retry", 1)
	letter := func(queue, exchange, key string, headers map[string]any) layouts.Message {
		return layouts.Message{Queue: queue, Exchange: exchange, Key: key, Headers: headers}
	}
	for what, c := range map[string]struct {
		layouts.Layout
		layouts.Message
		want bool
	}{
		"its own":                        {of(layout.Envelope{}), letter("order.main.q", "order.main.x", "order.created", deaths(waited)), false},
		"of a queue with the same names": {of(layout.Envelope{Name: "order"}), letter("audit", "order.main.x", "order.created", deaths(waited)), false},
		"another's":                      {of(layout.Envelope{}), letter("audit.main.q", "order.main.x", "order.created", deaths(waited)), true},
		"another's that was rejected":    {of(layout.Envelope{}), letter("audit.main.q", "order.main.x", "order.created", deaths(waited, died("order.main.q", "rejected", "order.main.x", "order.created", 1))), true},
		"fresh":                          {of(layout.Envelope{}), letter("audit.main.q", "order.main.x", "order.created", nil), false},
		"its own, after another's":       {of(layout.Envelope{}), letter("audit.main.q", "order.main.x", "order.created", deaths(died("audit.retry.q", "expired", "audit.retry.x", "audit.retry", 1), waited)), false},
		"handed on with another key":     {of(layout.Envelope{}), letter("audit.main.q", "order.main.x", "order.audited", deaths(waited)), false},
		"handed on to another exchange":  {of(layout.Envelope{}), letter("audit.main.q", "audit.main.x", "order.created", deaths(waited)), false},
		"of a queue that is not theirs":  {of(layout.Envelope{}), letter("audit.main.q", "order.main.x", "order.created", deaths(died("order.retry.q", "expired", "elsewhere", "order.retry", 1))), false},
	} {
		if got := c.Stray(c.Message); got != c.want {
			t.Errorf("%s: got stray %t, want %t", what, got, c.want)
		}
	}
}

func TestEnvelopeRests(t *testing.T) {
	t.Parallel()
	e := of(layout.Envelope{})
	for what, c := range map[string]struct {
		queue topology.Queue
		want  bool
	}{
		"quorum":  {e.Queue(layouts.QueueSpec{Name: "order.main.q", Type: layout.Quorum}), true},
		"classic": {e.Queue(layouts.QueueSpec{Name: "order.main.q"}), false},
		"passive": {e.Queue(layouts.QueueSpec{Name: "order.main.q", Type: layout.Quorum, Passive: true}), false},
		"changed": {e.Queue(layouts.QueueSpec{Name: "order.main.q", Type: layout.Quorum, Args: map[string]any{"x-dead-letter-exchange": nil}}), false},
	} {
		if got := e.DeadLettersToFailed(c.queue); got != c.want {
			t.Errorf("%s: got %t, want %t", what, got, c.want)
		}
	}
}

// A body at the broker's limit is not made larger than that.
func TestEnvelopeBodyIsNeverTooLarge(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":"` + strings.Repeat("x", 16<<20-10) + `"}`)
	f := layouts.Failure{Message: layouts.Message{Queue: "q", Body: body}, Attempt: 1, Kind: envelope.KindError}
	for what, verdict := range map[string]layouts.Verdict{"Retry": of(layout.Envelope{}).Retry(f), "Fail": of(layout.Envelope{}).Fail(f)} {
		if verdict.Body != nil {
			t.Errorf("%s of %d bytes: got a body of %d, want it as it is", what, len(body), len(verdict.Body))
		}
	}
}

// A body of very many members costs a look, and no memory.
func TestEnvelopeReadsWithoutKeeping(t *testing.T) {
	body := append(append([]byte(`{"retry_count":1`), bytes.Repeat([]byte(`,"a":{"b":[1]}`), 100_000)...), '}')
	got := testing.AllocsPerRun(3, func() {
		if n := of(layout.Envelope{}).Failures(layouts.Message{Queue: "q", Body: body}); n != 1 {
			t.Errorf("got %d failures, want 1", n)
		}
	})
	if got > 20 {
		t.Errorf("got %v allocations for 100,000 members, want hardly any", got)
	}
}

// A body is looked through once for each delivery, however it is made: as much again takes twice as long, not four times.
func BenchmarkEnvelopeFailures(b *testing.B) {
	const size = 16 << 20
	for name, body := range map[string][]byte{
		"no count":         []byte(`{"a":"` + strings.Repeat("x", size-8) + `"}`),
		"escapes":          []byte(`{"a":"` + strings.Repeat(`\u00e4`, size/6) + `"}`),
		"many members":     append(append([]byte(`{"retry_count":1`), bytes.Repeat([]byte(`,"a":1`), size/6)...), '}'),
		"nested":           []byte(`{"retry_count":1,"a":` + strings.Repeat("[", 9000) + strings.Repeat(" ", size-18_000) + strings.Repeat("]", 9000) + `}`),
		"nothing but open": bytes.Repeat([]byte(`{"retry_count":`), size/15),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				of(layout.Envelope{}).Failures(layouts.Message{Queue: "q", Body: body})
			}
		})
	}
}
