package admining

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/internal/layouts"
)

// watching is a watch that runs.
type watching struct {
	seen  chan admin.Message
	ended chan error
	stop  context.CancelFunc
}

// watch begins to watch, and returns when it has begun.
func (d *desk) watch(o admin.WatchOptions) *watching {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.ctx)
	w := &watching{seen: make(chan admin.Message, 100), ended: make(chan error, 1), stop: stop}
	began := make(chan struct{})
	o.Began = func() { close(began) }
	go func() {
		w.ended <- d.admin.Watch(ctx, o, func(m admin.Message) error {
			w.seen <- m
			return nil
		})
	}()
	select {
	case <-began:
	case err := <-w.ended:
		d.t.Fatalf("watch: %v", err)
	}
	return w
}

func (d *desk) next(w *watching) admin.Message {
	d.t.Helper()
	select {
	case m := <-w.seen:
		return m
	case err := <-w.ended:
		d.t.Fatalf("the watch has ended: %v", err)
	case <-d.ctx.Done():
		d.t.Fatal("nothing was seen")
	}
	return admin.Message{}
}

func (d *desk) watchers() (names []string) {
	d.t.Helper()
	live, err := d.admin.Live(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, b := range live.Bindings {
		if strings.HasPrefix(b.Destination, "rehop.watch.") && !slices.Contains(names, b.Destination) {
			names = append(names, b.Destination)
		}
	}
	return names
}

// A watcher of an exchange sees what its keys match, and takes nothing away.
func TestWatchExchange(t *testing.T) {
	d := newDesk(t)
	handled := make(chan string, 10)
	d.subscribe("mail", rehop.HandlerFunc(func(_ context.Context, m *rehop.Delivery) error {
		handled <- m.ID
		return nil
	}))
	w := d.watch(admin.WatchOptions{Exchange: "order", Keys: []string{"mail.a", "mail.c"}})
	for _, key := range []string{"mail.a", "mail.b", "mail.c"} {
		m := rehop.Message{ID: key, Exchange: "order", Key: key, Headers: map[string]any{"tenant": "acme"}, Body: []byte(key)}
		if err := d.client.Publish(d.ctx, m); err != nil {
			t.Fatal(err)
		}
		if got := <-handled; got != key {
			t.Errorf("the subscriber got %q, want %q", got, key)
		}
	}
	for _, want := range []string{"mail.a", "mail.c"} {
		got := d.next(w)
		if got.ID != want || got.Exchange != "order" || got.Key != want || string(got.Body) != want || got.Headers["tenant"] != "acme" {
			t.Errorf("got %+v, want message %q as it was published", got, want)
		}
	}
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
	if left := d.watchers(); len(left) > 0 {
		t.Errorf("got queues %q left behind, want none", left)
	}
}

// A watcher of an exchange is no route: what no queue is bound for is handed back, or kept, as if nobody watched.
func TestWatchIsNoRoute(t *testing.T) {
	d := newDesk(t)
	d.subscribe("mail", rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil }))
	// Neither a queue that ends with its connection nor an exchange behind which there is nothing makes one.
	passing, err := d.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.ch.QueueBind(passing.Name, "passing.#", "order", false, nil), d.ch.ExchangeDeclare("dead-end", "topic", true, false, false, false, nil),
		d.ch.ExchangeBind("dead-end", "end.#", "order", false, nil)); err != nil {
		t.Fatal(err)
	}
	w := d.watch(admin.WatchOptions{Exchange: "order"})
	if _, err := d.ch.QueueDelete(passing.Name, false, false, false); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"nobody", "passing.by", "end.of"} {
		err := d.client.Publish(d.ctx, rehop.Message{Exchange: "order", Key: key})
		if !errors.Is(err, rehop.ErrUnroutable) {
			t.Errorf("published with key %q: got %v, want that it is unroutable", key, err)
		}
	}
	keeper := kit.Open(t, rehop.Config{URL: d.rabbit.URL, KeepUnroutable: true})
	kit.Publish(t, keeper, rehop.Message{ID: "kept", Exchange: "order", Key: "nobody"})
	kit.WantDepth(t, d.rabbit, d.ch, layouts.UnroutedQueue, 1)
	kit.Publish(t, d.client, rehop.Message{ID: "seen", Exchange: "order", Key: "mail.x"})
	if got := d.next(w); got.ID != "seen" {
		t.Errorf("got %q, want the message that has a queue", got.ID)
	}
	w.stop()
	<-w.ended
}

// A watcher of a queue sees what comes by its bindings, also what returns to be tried again.
func TestWatchQueue(t *testing.T) {
	d := newDesk(t)
	d.fail("mail", 1, boom, nil)
	w := d.watch(admin.WatchOptions{Queue: "mail"})
	if err := d.client.Publish(d.ctx, rehop.Message{ID: "new", Exchange: "order", Key: "mail.new"}); err != nil {
		t.Fatal(err)
	}
	if got := d.next(w); got.ID != "new" || got.Attempts != 0 {
		t.Errorf("got %+v, want the new message", got)
	}
	w.stop()
	<-w.ended
}

// A watch that cannot be is refused, and one that has seen enough ends.
func TestWatchEnds(t *testing.T) {
	d := newDesk(t)
	d.subscribe("mail", rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil }))
	enough := errors.New("enough")
	for _, tt := range []struct {
		name string
		o    admin.WatchOptions
		want string
	}{
		{"nothing named", admin.WatchOptions{}, "either an exchange or a queue"},
		{"both named", admin.WatchOptions{Exchange: "order", Queue: "mail"}, "either an exchange or a queue"},
		{"no such exchange", admin.WatchOptions{Exchange: "nowhere"}, "nowhere"},
		{"leads nowhere", admin.WatchOptions{Exchange: "amq.topic"}, "has no bindings to a permanent queue"},
		{"no such queue", admin.WatchOptions{Queue: "nowhere"}, "no such queue"},
	} {
		err := d.admin.Watch(d.ctx, tt.o, func(admin.Message) error { return enough })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error that says %q", tt.name, err, tt.want)
		}
	}
	err := d.admin.Watch(d.ctx, admin.WatchOptions{Exchange: "order", Began: func() {
		if err := d.client.Publish(d.ctx, rehop.Message{Exchange: "order", Key: "mail.x"}); err != nil {
			t.Error(err)
		}
	}}, func(admin.Message) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v, want what see has returned", err)
	}
}

// A watch ends with an error when the connection is lost, and can be started again.
func TestWatchLosesConnection(t *testing.T) {
	d := newDesk(t)
	conns := make(chan net.Conn, 10)
	a, err := admin.Open(d.ctx, admin.Config{URL: d.rabbit.URL, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			conns <- conn
		}
		return conn, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	d.admin = a
	w := d.watch(admin.WatchOptions{Exchange: "amq.topic", Keys: []string{"#"}})
	for range 2 { // one to read and one to write
		(<-conns).Close()
	}
	if err := <-w.ended; !errors.Is(err, admin.ErrWatchEnded) {
		t.Errorf("got %v, want that the watch has ended", err)
	}
	w = d.watch(admin.WatchOptions{Exchange: "amq.topic", Keys: []string{"#"}})
	if err := d.ch.PublishWithContext(d.ctx, "amq.topic", "k", false, false, amqp.Publishing{MessageId: "later"}); err != nil {
		t.Fatal(err)
	}
	if got := d.next(w); got.ID != "later" {
		t.Errorf("got %q, want what was published later", got.ID)
	}
	w.stop()
	<-w.ended
}

// What Import returns is from the first message on, so that it can be run again without these.
func TestImportCountsFromTheFirst(t *testing.T) {
	d := newDesk(t)
	d.fail("mail", 1, boom, nil)
	var lines strings.Builder
	for _, queue := range []string{"mail", "mail", "nowhere", "mail"} {
		fmt.Fprintf(&lines, "{\"id\": \"x\", \"queue\": %q, \"body\": \"aGk=\"}\n", queue)
	}
	n, err := d.admin.Import(d.ctx, strings.NewReader(lines.String()))
	if n != 2 || !errors.Is(err, rehop.ErrUnroutable) {
		t.Errorf("got %d and %v, want 2 and that the third has no queue", n, err)
	}
}
