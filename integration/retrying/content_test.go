package retrying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// What was published is what the handler sees at every attempt, and what is in the failed queue.
func TestMessageIsIntact(t *testing.T) {
	t.Parallel()
	for name, transient := range map[string]bool{"persistent": false, "transient": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			ch := r.Channel()
			c := kit.OpenQuick(t, r, rehop.Config{})
			want := rehop.Message{
				ID: "an id", Exchange: "x", Key: "some.routing.key", Body: []byte("body\x00\xff"),
				ContentType: "application/x-thing", ContentEncoding: "identity", Transient: transient, Priority: 7, Expiration: time.Hour,
				Timestamp:     time.Date(2024, 2, 29, 12, 34, 56, 0, time.UTC),
				CorrelationID: "correlation", ReplyTo: "reply.queue", Type: "a.type", AppID: "an app",
				Headers: map[string]any{
					"string": "text", "empty": "", "int32": int32(-5), "int64": int64(1) << 40, "bool": true, "float": 1.5, "bytes": []byte{0, 1, 255},
					"time": time.Unix(1700000000, 0), "nil": nil, "list": []any{"a", int32(1), []any{"deep"}},
					"table": map[string]any{"inner": map[string]any{"x": "y"}}, "Ümlaut ключ": "ok",
					"x-custom": "kept", "x-retry": int32(3), "CC-like": "kept",
				},
			}
			deliveries := make(chan rehop.Delivery, 10)
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "x", Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					deliveries <- *d
					if d.Attempt == 2 {
						return rehop.RetryAfter(130*time.Millisecond, errors.New("second failure"))
					}
					return fmt.Errorf("failure %d", d.Attempt)
				})})
			kit.Publish(t, c, want)
			for attempt := 1; attempt <= 3; attempt++ {
				d := kit.Receive(t, deliveries, "attempt")
				if d.Attempt != attempt || d.MaxAttempts != 3 || d.Queue != "q" || d.Redelivered || d.Replays != 0 {
					t.Errorf("attempt %d: got %+v", attempt, d)
				}
				if wantLast := map[int]string{1: "", 2: "failure 1", 3: "second failure"}[attempt]; d.LastError != wantLast {
					t.Errorf("attempt %d: got last error %q, want %q", attempt, d.LastError, wantLast)
				}
				if d.FirstFailed.IsZero() != (attempt == 1) {
					t.Errorf("attempt %d: got first failed %v", attempt, d.FirstFailed)
				}
				compare(t, fmt.Sprintf("attempt %d", attempt), d.Message, want)
			}
			d := kit.Take(t, ch, "q.failed")
			headers := rabbit.FromTable(d.Headers)
			f := envelope.ReadDead(headers, d.Exchange, d.RoutingKey)
			if f.Exchange != want.Exchange || f.Key != want.Key || f.Queue != "q" || f.Attempt != 3 || f.Error != "failure 3" || f.Kind != "error" ||
				f.Host == "" || f.FailedAt.Before(f.FirstFailed) || f.FirstFailed.IsZero() || f.Expiration != "3600000" {
				t.Errorf("failed: got %+v", f)
			}
			got := rehop.Message{
				ID: d.MessageId, Exchange: f.Exchange, Key: f.Key, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
				Transient: transient, Priority: d.Priority, Expiration: time.Hour, Timestamp: d.Timestamp,
				CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId, Headers: envelope.Clean(headers),
			}
			compare(t, "failed", got, want)
		})
	}
}

func compare(t *testing.T, what string, got, want rehop.Message) {
	t.Helper()
	if !got.Timestamp.Equal(want.Timestamp) {
		t.Errorf("%s: got timestamp %v, want %v", what, got.Timestamp, want.Timestamp)
	}
	for name, w := range want.Headers {
		g := got.Headers[name]
		if a, ok := g.(time.Time); ok {
			if b, ok := w.(time.Time); ok && a.Equal(b) {
				continue
			}
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s: header %q: got %#v, want %#v", what, name, g, w)
		}
	}
	for name, g := range got.Headers {
		if _, ok := want.Headers[name]; !ok {
			t.Errorf("%s: header %q: got %#v, want none", what, name, g)
		}
	}
	got.Headers, want.Headers, got.Timestamp, want.Timestamp = nil, nil, time.Time{}, time.Time{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"1 MB":          strings.Repeat("error ", 1<<20/6),
		"1 MB of runes": strings.Repeat("ошибка😀", 1<<20/16),
		"not UTF-8":     "bad \xff\xfe byte " + strings.Repeat("\xff", 10_000),
		"NUL and lines": "a\x00b\r\nc\u2028d",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			ch := r.Channel()
			c := kit.OpenQuick(t, r, rehop.Config{})
			last := make(chan string, 1)
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100 * time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Attempt == 2 {
						last <- d.LastError
						panic(text)
					}
					return errors.New(text)
				})})
			kit.Publish(t, c, kit.Numbered("q", 1)...)
			check := func(where, got string) {
				t.Helper()
				if len(got) > envelope.MaxErrorText || !utf8.ValidString(got) || got == "" {
					t.Errorf("%s: got %d bytes, valid UTF-8 %v; want up to %d, valid", where, len(got), utf8.ValidString(got), envelope.MaxErrorText)
				}
			}
			check("second attempt", kit.Receive(t, last, "second attempt"))
			f := kit.Failure(kit.Take(t, ch, "q.failed"))
			check("failed queue", f.Error)
			if len(f.Stack) == 0 || len(f.Stack) > envelope.MaxErrorText {
				t.Errorf("stack: got %d bytes, want up to %d", len(f.Stack), envelope.MaxErrorText)
			}
			if !strings.HasPrefix(f.Error, "panic: "+strings.ToValidUTF8(text[:4], "\uFFFD")) {
				t.Errorf("error: got %.40q…, want it to begin as the text does", f.Error)
			}
		})
	}
}

// Headers that leave hardly any room for rehop's own must not keep a message from its failed queue.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	const frame = 128 << 10
	for name, test := range map[string]struct {
		size    int
		foreign bool // a queue of somebody else's, without dead-lettering
		attempt int  // how many are possible before there is no room for more history
	}{
		"120 KB":                 {size: 120_000, attempt: 2},
		"room for a short error": {size: frame - 1000, attempt: 1},
		"no room":                {size: frame - 150, attempt: 1},
		"no room, foreign queue": {size: frame - 150, foreign: true, attempt: 1},
		"120 KB, foreign queue":  {size: 120_000, foreign: true, attempt: 2},
		"nested too deep":        {size: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ch, _, c := kit.Setup(t)
			if test.foreign {
				kit.Queue(t, ch, "q", amqp.Table{"x-queue-type": "quorum"})
			}
			headers := amqp.Table{}
			if test.size > 0 {
				headers["big"] = strings.Repeat("h", test.size)
			} else {
				var deep any = "bottom"
				for range 60 {
					deep = amqp.Table{"d": deep}
				}
				headers["deep"] = deep
			}
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", ExistingQueue: test.foreign, Retry: rehop.Steps(100 * time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Attempt == 2 {
						panic(strings.Repeat("second ", 10_000))
					}
					return errors.New(strings.Repeat("first ", 10_000))
				})})
			if err := ch.Confirm(false); err != nil {
				t.Fatal(err)
			}
			confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp.Publishing{Headers: headers, MessageId: "m", Body: []byte("b")})
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := confirm.WaitContext(kit.Context(t)); !ok || err != nil {
				t.Fatalf("publish: got %v, %v; want it confirmed", ok, err)
			}
			kit.WantDepth(t, r, ch, "q.failed", 1)
			if test.size < 0 {
				return // no client written in Go can read it there either, but it is out of the way
			}
			fresh := r.Channel() // in case the frame is too large for it
			d := kit.Take(t, fresh, "q.failed")
			f := kit.Failure(d)
			if d.MessageId != "m" || string(d.Body) != "b" || f.Queue != "q" {
				t.Errorf("failed: got id %q, body %q, queue %q; want m, b, q", d.MessageId, d.Body, f.Queue)
			}
			if test.size > 0 && d.Headers["big"] != headers["big"] && (test.attempt == 2 || !strings.Contains(f.Dropped, "big")) {
				t.Errorf("failed: the large header is not what it was; said to be dropped: %q", f.Dropped)
			}
			if f.Attempt != test.attempt {
				t.Errorf("failed: got attempt %d, kind %q; want %d", f.Attempt, f.Kind, test.attempt)
			}
		})
	}
}

// A message without an id gets one at its first failure, and keeps it.
func TestMessageIDs(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	c := kit.OpenQuick(t, r, rehop.Config{})
	ids := make(chan string, 10)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			ids <- d.ID
			if d.Attempt == 2 {
				return rehop.RetryAfter(110*time.Millisecond, errors.New("x"))
			}
			return errors.New("x")
		})})
	if err := ch.PublishWithContext(kit.Context(t), "", "q", true, false, amqp.Publishing{Body: []byte("raw")}); err != nil {
		t.Fatal(err)
	}
	first, second, third := kit.Receive(t, ids, "first"), kit.Receive(t, ids, "second"), kit.Receive(t, ids, "third")
	failed := kit.Take(t, ch, "q.failed").MessageId
	if second == "" || third != second || failed != second || (first != "" && first != second) {
		t.Errorf("ids: got %q, %q, %q and %q in the failed queue; want the same from the second on", first, second, third, failed)
	}
}

// The broker's own history starts afresh with each wait: copied along, it would make the broker drop the message.
func TestBrokerHistoryIsNotCopied(t *testing.T) {
	t.Parallel()
	eachWay(t, 230*time.Millisecond, func(t *testing.T, way string, answer error) {
		_, ch, _, c := kit.Setup(t)
		const delay = 100 * time.Millisecond
		attempts := kit.NewAttempts(3, func(_ context.Context, d *rehop.Delivery) error {
			for name := range d.Headers {
				if envelope.Owned(name) {
					t.Errorf("attempt %d: got header %q, want none of rehop's or the broker's", d.Attempt, name)
				}
			}
			return answer
		})
		sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(delay, delay, delay, delay, delay), Concurrency: 1, Prefetch: 1, Handler: attempts})
		kit.Publish(t, c, rehop.Message{Key: "q", Headers: map[string]any{"mine": "x"}})
		attempts.Leave(t, sub)
		// The fourth attempt is in the queue, as the broker delivers it.
		d := kit.Take(t, ch, "q")
		deaths, _ := d.Headers["x-death"].([]any)
		limit := map[string]int{"step": 1, "cascade": 2}[way] // 230 ms are 300 ms, which is two levels
		if len(deaths) != limit {
			t.Errorf("x-death: got %d entries, want %d", len(deaths), limit)
		}
		for _, death := range deaths {
			if n := death.(amqp.Table)["count"]; fmt.Sprint(n) != "1" {
				t.Errorf("x-death: got count %v, want 1", n)
			}
		}
		if got := kit.Failure(d).Attempt; got != 3 {
			t.Errorf("attempts so far: got %d, want 3", got)
		}
	})
}

// A consumer that knows nothing of rehop rejects a message: it goes to the failed queue.
func TestRejectedByOthers(t *testing.T) {
	t.Parallel()
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		r := lab.Single(t)
		ch := r.Channel()
		c := kit.OpenQuick(t, r, rehop.Config{})
		s := rehop.Subscriber{Queue: "q", Exchange: "x", QueueType: kind, Retry: rehop.Steps(100 * time.Millisecond),
			Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("handler's error") })}
		kit.Stop(t, kit.Subscribe(t, c, s))
		kit.Publish(t, c, rehop.Message{ID: "m", Exchange: "x", Key: "some.key", Body: []byte("b"), Headers: map[string]any{"h": "v"}})
		reject := func() {
			t.Helper()
			lab.Eventually(t, kit.Limit, "a message to reject", func() bool {
				d, ok, err := ch.Get("q", false)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					if err := d.Reject(false); err != nil {
						t.Fatal(err)
					}
				}
				return ok
			})
		}
		began := time.Now().Add(-2 * time.Second) // the broker's times are whole seconds
		reject()
		d := kit.Take(t, ch, "q.failed")
		f := kit.Failure(d)
		if f.Kind != "dead" || f.Error != "dead-lettered by the broker: rejected" || f.Queue != "q" || f.Exchange != "x" || f.Key != "some.key" || f.Attempt != 0 {
			t.Errorf("failed: got %+v; want dead, rejected, of q, published to x with some.key, no attempt", f)
		}
		if f.FailedAt.Before(began) || f.FailedAt.After(time.Now().Add(time.Second)) || !f.FirstFailed.Equal(f.FailedAt) {
			t.Errorf("failed: got times %v and %v, want now", f.FailedAt, f.FirstFailed)
		}
		if d.MessageId != "m" || !bytes.Equal(d.Body, []byte("b")) || d.Headers["h"] != "v" {
			t.Errorf("failed: got id %q, body %q, header %v; want m, b, v", d.MessageId, d.Body, d.Headers["h"])
		}

		// The same after a retry by rehop: what rehop knows is kept, the broker's reason stands in front.
		c2 := kit.OpenQuick(t, r, rehop.Config{})
		attempts := kit.NewAttempts(1, s.Handler.Handle)
		s.Handler = attempts
		sub := kit.Subscribe(t, c2, s)
		kit.Publish(t, c2, rehop.Message{ID: "n", Exchange: "x", Key: "other.key"})
		attempts.Leave(t, sub)
		reject()
		f = kit.Failure(kit.Take(t, ch, "q.failed"))
		if f.Kind != "dead" || f.Queue != "q" || f.Exchange != "x" || f.Key != "other.key" || f.Attempt != 1 {
			t.Errorf("failed after a retry: got %+v; want dead, of q, published to x with other.key, one attempt", f)
		}
	})
}
