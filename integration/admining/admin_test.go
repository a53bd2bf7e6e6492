// Package admining tests package admin on a real RabbitMQ.
package admining

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

// desk is a virtual host with a client, an admin and a channel for what is done by hand.
type desk struct {
	t      *testing.T
	ctx    context.Context
	rabbit *lab.Rabbit
	client *rehop.Client
	admin  *admin.Admin
	ch     *amqp.Channel
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	t.Parallel()
	r := lab.Single(t)
	ctx := kit.Timeout(t, 5*kit.Limit)
	client := kit.Open(t, rehop.Config{URL: r.URL})
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: lab.Setting(t, "REHOP_RABBITMQ_MANAGEMENT")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return &desk{t: t, ctx: ctx, rabbit: r, client: client, admin: a, ch: r.Channel()}
}

// subscribe subscribes to a queue for the keys of exchange order that begin with the queue's name.
func (d *desk) subscribe(queue string, handler rehop.Handler) *rehop.Subscription {
	d.t.Helper()
	return kit.Subscribe(d.t, d.client, rehop.Subscriber{Queue: queue, Exchange: "order", Keys: []string{queue + ".#"}, Retry: rehop.NoRetry(),
		Handler: handler})
}

// fail has n messages fail for good in a queue, and ends the subscription.
func (d *desk) fail(queue string, n int, failure func(i int) error, headers func(i int) map[string]any) {
	d.t.Helper()
	sub := d.subscribe(queue, rehop.HandlerFunc(func(_ context.Context, m *rehop.Delivery) error {
		var i int
		_, _ = fmt.Sscanf(m.ID, "m%d", &i)
		return failure(i)
	}))
	for i := range n {
		m := rehop.Message{ID: fmt.Sprintf("m%d", i), Exchange: "order", Key: fmt.Sprintf("%s.k%d", queue, i), Body: fmt.Appendf(nil, "body %d", i)}
		if headers != nil {
			m.Headers = headers(i)
		}
		kit.Publish(d.t, d.client, m)
	}
	kit.WantDepth(d.t, d.rabbit, d.ch, layouts.FailedQueue(queue), n)
	kit.Drain(d.t, sub)
}

func boom(int) error { return errors.New("boom") }

// receive subscribes again and returns what arrives, in a channel.
func (d *desk) receive(queue string) <-chan *rehop.Delivery {
	d.t.Helper()
	got := make(chan *rehop.Delivery, 1000)
	d.subscribe(queue, kit.Into(got))
	return got
}

func ids(messages []admin.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}

func TestPeekDisturbsNothing(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 5, boom, nil)
	for range 25 { // RabbitMQ 4 drops a message after 20 deliveries by default
		found, err := d.admin.Failed(d.ctx, "q", 3, admin.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(found); got != "m0 m1 m2" {
			t.Fatalf("peek shows %q, want m0 m1 m2", got)
		}
	}
	found, err := d.admin.Failed(d.ctx, "q", 100, admin.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(found); got != "m0 m1 m2 m3 m4" {
		t.Fatalf("peek shows %q, want all five in order", got)
	}
	m := found[4]
	if m.Queue != "q" || m.Exchange != "order" || m.Key != "q.k4" || string(m.Body) != "body 4" || m.Error != "boom" ||
		m.Kind != "error" || m.Attempts != 1 || m.FailedAt.IsZero() || m.Host == "" || len(m.Headers) != 0 {
		t.Fatalf("the failed message reads %+v", m)
	}
	if _, err := d.admin.Failed(d.ctx, "nix", 1, admin.Filter{}); !errors.Is(err, admin.ErrNoQueue) {
		t.Fatalf("peek at a missing queue: %v, want ErrNoQueue", err)
	}
}

func TestReplayGoesToItsOriginOnly(t *testing.T) {
	d := newDesk(t)
	other := d.receive("other") // bound to other keys of the same exchange
	if err := d.ch.QueueBind("other", "#", "order", false, nil); err != nil {
		t.Fatal(err)
	}
	d.fail("q", 150, boom, func(i int) map[string]any { return map[string]any{"n": int64(i)} })
	for range 150 {
		<-other // each was published once, and reached both
	}
	var steps []admin.Progress
	p, err := d.admin.Replay(d.ctx, "q", admin.Options{Progress: func(p admin.Progress) { steps = append(steps, p) }})
	if err != nil {
		t.Fatal(err)
	}
	if want := (admin.Progress{Seen: 150, Done: 150, Total: 150}); p != want {
		t.Fatalf("progress %+v, want %+v", p, want)
	}
	if len(steps) < 2 || steps[len(steps)-1] != p {
		t.Fatalf("progress was reported as %+v", steps)
	}
	got := d.receive("q")
	for range 150 {
		m := <-got
		var i int
		_, _ = fmt.Sscanf(m.ID, "m%d", &i)
		if m.Attempt != 1 || m.Exchange != "order" || m.Key != fmt.Sprintf("q.k%d", i) || m.Replays != 1 || m.LastError != "" ||
			!slices.Equal(m.Body, fmt.Appendf(nil, "body %d", i)) || m.Headers["n"] != int64(i) || len(m.Headers) != 1 {
			t.Fatalf("replayed message %+v", m)
		}
	}
	select {
	case m := <-other:
		t.Fatalf("another subscriber got a copy of %s", m.ID)
	default:
	}
	if n := d.rabbit.Depth(d.ch, "q.failed"); n != 0 {
		t.Fatalf("%d messages are left in the failed queue", n)
	}
}

func TestReplayByFilter(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 10, func(i int) error {
		if i%2 == 0 {
			return rehop.Permanent(fmt.Errorf("no such Customer %d", i))
		}
		return errors.New("timeout of the bank")
	}, func(i int) map[string]any { return map[string]any{"tenant": fmt.Sprint(i % 3)} })
	middle := time.Now()
	for _, c := range []struct {
		name   string
		filter admin.Filter
		limit  int
		want   string
	}{
		{"text", admin.Filter{Text: "customer 4"}, 0, "m4"},
		{"kind and header", admin.Filter{Kinds: []rehop.Kind{"permanent"}, Header: map[string]string{"tenant": "0"}}, 0, "m0 m6"},
		{"key", admin.Filter{Key: "q.k9"}, 0, "m9"},
		{"key prefix", admin.Filter{Key: "q.k3*"}, 0, "m3"},
		{"future", admin.Filter{Since: middle.Add(time.Hour)}, 0, ""},
		{"past", admin.Filter{Before: middle.Add(-time.Hour)}, 0, ""},
		{"one by id", admin.Filter{IDs: []string{"m7"}}, 0, "m7"},
		{"limit", admin.Filter{}, 2, "m1 m2"},
		{"age", admin.Filter{Since: middle.Add(-time.Hour), Before: middle.Add(time.Hour)}, 0, "m5 m8"},
	} {
		p, err := d.admin.Replay(d.ctx, "q", admin.Options{Filter: c.filter, Limit: c.limit})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		want := strings.Fields(c.want)
		if p.Done != len(want) {
			t.Fatalf("%s: %d replayed, want %d", c.name, p.Done, len(want))
		}
		var got []string
		for range want {
			m, ok, err := d.ch.Get("q", true)
			if !ok || err != nil {
				t.Fatalf("%s: the queue has only %v (%v)", c.name, got, err)
			}
			got = append(got, m.MessageId)
		}
		if strings.Join(got, " ") != c.want {
			t.Fatalf("%s: replayed %v, want %v", c.name, got, want)
		}
	}
	if n := d.rabbit.Depth(d.ch, "q.failed"); n != 0 {
		t.Fatalf("%d messages are left in the failed queue", n)
	}
}

func TestReplayIsSafeToKill(t *testing.T) {
	const messages, most = 800, 256
	d := newDesk(t)
	d.fail("q", messages, boom, nil)
	ctx, cancel := context.WithCancel(d.ctx)
	p, err := d.admin.Replay(ctx, "q", admin.Options{Progress: func(p admin.Progress) {
		if p.Done > 0 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || p.Done == 0 || p.Done == messages {
		t.Fatalf("the replay was not cut in the middle: %+v, %v", p, err)
	}
	if _, err := d.admin.Replay(d.ctx, "q", admin.Options{}); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, m := range kit.TakeAll(t, d.ch, "q") {
		seen[m.MessageId]++
	}
	if len(seen) != messages {
		t.Fatalf("%d of %d messages came back", len(seen), messages)
	}
	twice := 0
	for _, n := range seen {
		twice += n - 1
	}
	if twice > most {
		t.Fatalf("%d messages were replayed twice, want at most %d", twice, most)
	}
}

func TestReplayKeepsRate(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 30, boom, nil)
	start := time.Now()
	if p, err := d.admin.Replay(d.ctx, "q", admin.Options{Rate: 20}); err != nil || p.Done != 30 {
		t.Fatalf("%+v, %v", p, err)
	}
	if took := time.Since(start); took < 1200*time.Millisecond {
		t.Fatalf("30 messages at 20 a second took %v", took)
	}
}

func TestReplayWithoutQueueKeepsTheMessage(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 3, boom, nil)
	kit.DeleteQueue(t, d.ch, "q")
	p, err := d.admin.Replay(d.ctx, "q", admin.Options{})
	if !errors.Is(err, rehop.ErrUnroutable) || p.Done != 0 || p.Kept != 3 {
		t.Fatalf("%+v, %v, want ErrUnroutable and all kept", p, err)
	}
	kit.WantDepth(t, d.rabbit, d.ch, "q.failed", 3)
}

func TestReplayOfDeadLettered(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 0, boom, nil)
	kit.Publish(t, d.client, rehop.Message{ID: "dead", Exchange: "order", Key: "q.x", Body: []byte("b")})
	m, ok, err := d.ch.Get("q", false)
	if !ok || err != nil {
		t.Fatal("not in the queue", err)
	}
	if err := m.Reject(false); err != nil { // a consumer of another application has the broker dead-letter it
		t.Fatal(err)
	}
	kit.WantDepth(t, d.rabbit, d.ch, "q.failed", 1)
	found, err := d.admin.Failed(d.ctx, "q", 1, admin.Filter{Kinds: []rehop.Kind{"dead"}})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	if f := found[0]; f.Queue != "q" || f.Exchange != "order" || f.Key != "q.x" || !strings.Contains(f.Error, "rejected") || f.FailedAt.IsZero() {
		t.Fatalf("it reads %+v", f)
	}
	if p, err := d.admin.Replay(d.ctx, "q", admin.Options{}); err != nil || p.Done != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	r := <-d.receive("q")
	if r.ID != "dead" || r.Exchange != "order" || r.Key != "q.x" || r.Attempt != 1 || len(r.Headers) != 0 {
		t.Fatalf("replayed as %+v", r)
	}
}

func TestDiscard(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 6, boom, nil)
	p, err := d.admin.Discard(d.ctx, "q", admin.Options{Filter: admin.Filter{IDs: []string{"m1", "m4"}}})
	if err != nil || p.Done != 2 || p.Kept != 4 {
		t.Fatalf("%+v, %v", p, err)
	}
	found, err := d.admin.Failed(d.ctx, "q", 100, admin.Filter{})
	if err != nil || ids(found) != "m0 m2 m3 m5" {
		t.Fatalf("left are %q, %v", ids(found), err)
	}
}

func TestExportAndImport(t *testing.T) {
	d := newDesk(t)
	headers := map[string]any{
		"text": "ü", "int": int64(1) << 60, "int32": int32(-7), "yes": true, "none": nil, "float": 1.5, "bytes": []byte{0, 255},
		"time": time.Unix(1700000000, 0), "list": []any{"a", int64(2)}, "table": map[string]any{"x": int32(1), "$type": "odd"},
	}
	d.fail("q", 3, boom, func(int) map[string]any { return headers })
	var first, second bytes.Buffer
	if n, err := d.admin.Export(d.ctx, "q", &first, admin.Filter{}); n != 3 || err != nil {
		t.Fatalf("exported %d, %v", n, err)
	}
	if p, err := d.admin.Discard(d.ctx, "q", admin.Options{}); p.Done != 3 || err != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	if n, err := d.admin.Import(d.ctx, bytes.NewReader(first.Bytes())); n != 3 || err != nil {
		t.Fatalf("imported %d, %v", n, err)
	}
	if n, err := d.admin.Export(d.ctx, "q", &second, admin.Filter{}); n != 3 || err != nil {
		t.Fatalf("exported %d again, %v", n, err)
	}
	if first.String() != second.String() {
		t.Fatalf("an import changes what was exported:\n%s\n%s", first.String(), second.String())
	}
	found, err := d.admin.Failed(d.ctx, "q", 1, admin.Filter{})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if got, want := fmt.Sprintf("%#v", found[0].Headers), fmt.Sprintf("%#v", headers); len(found[0].Headers) != len(headers) {
		t.Fatalf("headers %s, want %s", got, want)
	}
	for name, want := range headers {
		if got := found[0].Headers[name]; fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("header %q is %T %v, want %T %v", name, got, got, want, want)
		}
	}
	if n, err := d.admin.Import(d.ctx, strings.NewReader(first.String()+"{oops\n")); n != 3 || err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Fatalf("import of a bad line: %d, %v", n, err)
	}
}

func TestQueues(t *testing.T) {
	d := newDesk(t)
	d.fail("q", 4, boom, nil)
	waiting := make(chan struct{}, 10)
	kit.Subscribe(t, d.client, rehop.Subscriber{Queue: "w", Exchange: "order", Keys: []string{"w.#"}, Retry: rehop.Steps(time.Hour),
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			waiting <- struct{}{}
			return errors.New("later")
		})})
	for range 2 {
		kit.Publish(t, d.client, rehop.Message{Exchange: "order", Key: "w.1"})
		<-waiting
	}
	for range 3 {
		kit.Publish(t, d.client, rehop.Message{Exchange: "order", Key: "q.1"})
	}
	var last admin.Overview
	want := []admin.Queue{{Name: "q", Type: "quorum", Ready: 3, Failed: 4}, {Name: "w", Type: "quorum", Consumers: 1, Waiting: 2}}
	// The management API gathers its figures every five seconds.
	lab.Eventually(t, kit.Limit, "the list shows what is there", func() bool {
		var err error
		if last, err = d.admin.QueuesWithWaiting(d.ctx, 100); err != nil {
			t.Fatal(err)
		}
		return slices.Equal(last.Queues, want)
	})
	q, err := d.admin.Queue(d.ctx, "q")
	if err != nil || q.Ready != 3 || q.Failed != 4 {
		t.Fatalf("%+v, %v", q, err)
	}
	if len(last.DelayQueues) != 1 || last.DelayQueues[0].Name != "rehop.step.1h" || last.DelayQueues[0].Messages != 2 {
		t.Fatalf("delay queues: %+v", last.DelayQueues)
	}
	plainAdmin, err := admin.Open(d.ctx, admin.Config{URL: d.rabbit.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer plainAdmin.Close()
	if _, err := plainAdmin.Queues(d.ctx); !errors.Is(err, admin.ErrNoManagement) {
		t.Fatalf("without the management API: %v", err)
	}
}
