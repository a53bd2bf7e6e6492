package connections

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"sort"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// One connection publishes, the other consumes, and the broker's tools distinguish them.
func TestTwoNamedConnections(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.Open(t, rehop.Config{URL: r.URL, Name: "orders"})
	got := make(chan *rehop.Delivery, 1)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	kit.Receive(t, got, "message")
	var names []string
	byName := make(map[string]connection)
	for _, conn := range connections(t, r, 2) {
		names = append(names, conn.UserProvidedName)
		byName[conn.UserProvidedName] = conn
	}
	sort.Strings(names)
	if len(names) != 2 || names[0] != "orders consume" || names[1] != "orders publish" {
		t.Fatalf("got connections %q, want orders consume and orders publish", names)
	}
	// The consumer is on the one that is named so. Its details are [], or have no names, until the broker has gathered them.
	var consumers []struct {
		Channel json.RawMessage `json:"channel_details"`
	}
	var channel struct {
		Connection string `json:"connection_name"`
	}
	lab.Eventually(t, kit.Limit, "consumer shown", func() bool {
		r.API("GET", "/api/consumers/"+r.Vhost, nil, &consumers)
		return len(consumers) == 1 && json.Unmarshal(consumers[0].Channel, &channel) == nil && channel.Connection != ""
	})
	if got, want := channel.Connection, byName["orders consume"].Name; got != want {
		t.Errorf("the consumer is on connection %q, want %q", got, want)
	}
}

func TestSeveralURLs(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	dead := with(t, r.URL, func(u *url.URL) { u.Host = closedPort(t) })
	c := kit.Open(t, rehop.Config{URLs: []string{dead, r.URL}})
	if got := c.State(); got != rehop.StateOpen {
		t.Errorf("got state %s, want %s", got, rehop.StateOpen)
	}
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: kit.Into(make(chan *rehop.Delivery, 1))})
	kit.Publish(t, c, rehop.Message{Key: "q"})
}

// Everything may be started before the broker is.
func TestBrokerComesUpLater(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	w, e := &kit.Wire{}, &events{}
	w.Lead(closedPort(t))
	began := time.Now()
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: e.hooks(), Exchanges: []rehop.Exchange{{Name: "declared"}}})
	if got := c.State(); got != rehop.StateRecovering {
		t.Errorf("got state %s, want %s", got, rehop.StateRecovering)
	}
	got := make(chan *rehop.Delivery, 10)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "order", Handler: kit.Into(got)})
	err := c.Publish(kit.Timeout(t, 200*time.Millisecond), rehop.Message{Exchange: "order", Key: "a", Body: []byte("not sent")})
	if !errors.Is(err, rehop.ErrDisconnected) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish without a broker: got %v, want %v by the deadline", err, rehop.ErrDisconnected)
	}
	waiting := make(chan error, 1)
	go func() {
		waiting <- c.Publish(kit.Context(t), rehop.Message{Key: "q.failed", Body: []byte("waited")})
	}()
	// The pauses of the two connections grow to a second at most, less some jitter.
	dials, away := w.Dials(), time.Since(began)
	if dials > 20+2*int(away/(500*time.Millisecond)) {
		t.Errorf("got %d dials in %v, want a growing pause between them", dials, away)
	}
	ch := r.Channel()
	kit.Queue(t, ch, "q.failed", map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000_000)})
	w.Lead(host(t, r.URL))
	e.await(t, "consuming", func() bool { return e.ups("q") == 1 })
	if err := <-waiting; err != nil {
		t.Errorf("publish that waited for the broker: got %v, want nil", err)
	}
	if got := c.State(); got != rehop.StateOpen {
		t.Errorf("got state %s, want %s", got, rehop.StateOpen)
	}
	kit.Publish(t, c, rehop.Message{Exchange: "order", Key: "a", Body: []byte("sent")})
	if d := kit.Receive(t, got, "message"); string(d.Body) != "sent" {
		t.Errorf("got %q, want the message that was published when the broker was up", d.Body)
	}
	lab.Eventually(t, kit.Limit, "exchange of the config declared", func() bool {
		return r.TryAPI("GET", "/api/exchanges/"+r.Vhost+"/declared", nil, nil) == nil
	})
}

// The deadline of the handshake ends with it.
func TestConnectionOutlivesDialTimeout(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	e := &events{}
	const timeout = 3 * time.Second
	// Heartbeats are so far apart that a busy machine does not miss one.
	c := kit.Open(t, rehop.Config{URL: r.URL, DialTimeout: timeout, Heartbeat: kit.Limit, Hooks: e.hooks()})
	got := make(chan *rehop.Delivery, 100)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	kit.Receive(t, got, "message")
	opened := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.in("publish", rehop.StateOpen) + e.in("consume", rehop.StateOpen)
	}
	before := opened() // a try to connect may have taken too long
	for ctx := kit.Timeout(t, timeout+timeout/2); ctx.Err() == nil; {
		kit.Publish(t, c, rehop.Message{Key: "q"})
		kit.Receive(t, got, "message")
	}
	if n := opened() - before; n != 0 {
		t.Errorf("got %d lost connections, want none: %v", n, e.states)
	}
}

// A broker that accepts and then sends nothing.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	l := listen(t, nil)
	c := kit.Open(t, rehop.Config{URL: "amqp://guest:guest@" + l + "/", DialTimeout: 500 * time.Millisecond})
	if got := c.State(); got != rehop.StateRecovering {
		t.Errorf("got state %s, want %s", got, rehop.StateRecovering)
	}
	if err := c.Close(kit.Context(t)); err != nil {
		t.Errorf("close while a handshake hangs: %v", err)
	}
}

// Open obeys its context.
func TestOpenObeysContext(t *testing.T) {
	t.Parallel()
	l := listen(t, nil)
	opened := make(chan error, 1)
	go func() {
		_, err := rehop.Open(kit.Timeout(t, 300*time.Millisecond), rehop.Config{URL: "amqp://guest:guest@" + l + "/", DialTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		opened <- err
	}()
	if err := kit.Receive(t, opened, "end of Open"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
}
