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

// One connection publishes, the other consumes, and the broker's tools tell them apart.
func TestTwoNamedConnections(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.Open(t, rehop.Config{URL: r.URL, Name: "orders"})
	got := make(chan *rehop.Delivery, 1)
	kit.Subscribe(t, c, rehop.Subscription{Queue: "q", Handler: kit.Into(got)})
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
	// The consumer is on the one that is named so. Its details are [] until the broker has gathered them.
	var consumers []struct {
		Channel json.RawMessage `json:"channel_details"`
	}
	var channel struct {
		Connection string `json:"connection_name"`
	}
	lab.Eventually(t, kit.Limit, "consumer shown", func() bool {
		r.API("GET", "/api/consumers/"+r.Vhost, nil, &consumers)
		return len(consumers) == 1 && json.Unmarshal(consumers[0].Channel, &channel) == nil
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
	kit.Subscribe(t, c, rehop.Subscription{Queue: "q", Handler: kit.Into(make(chan *rehop.Delivery, 1))})
	kit.Publish(t, c, rehop.Message{Key: "q"})
}

// Everything may be started before the broker is.
func TestBrokerComesUpLater(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	w, e := &kit.Wire{}, &events{}
	w.Lead(closedPort(t))
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: []rehop.Hook{e}, Exchanges: []rehop.Exchange{{Name: "declared"}}})
	if got := c.State(); got != rehop.StateRecovering {
		t.Errorf("got state %s, want %s", got, rehop.StateRecovering)
	}
	got := make(chan *rehop.Delivery, 10)
	kit.Subscribe(t, c, rehop.Subscription{Queue: "q", Exchange: "order", Handler: kit.Into(got)})
	err := c.Publish(kit.Timeout(t, 200*time.Millisecond), rehop.Message{Exchange: "order", Key: "a", Body: []byte("not sent")})
	if !errors.Is(err, rehop.ErrDisconnected) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish without a broker: got %v, want %v by the deadline", err, rehop.ErrDisconnected)
	}
	waiting := make(chan error, 1)
	go func() {
		waiting <- c.Publish(kit.Context(t), rehop.Message{Key: "q.failed", Body: []byte("waited")})
	}()
	dialsWhileAway := w.Dials()
	if dialsWhileAway > 20 {
		t.Errorf("got %d dials in less than a second, want a growing pause between them", dialsWhileAway)
	}
	ch := r.Channel()
	kit.Queue(t, ch, "q.failed", map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000_000)})
	w.Lead(host(t, r.URL))
	up := time.Now()
	e.await(t, "consuming", func() bool { return e.ups("q") == 1 })
	if took := time.Since(up); took > 3*time.Second {
		t.Errorf("consuming %v after the broker came up, want about 1 s", took)
	}
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
	c := kit.Open(t, rehop.Config{URL: r.URL, DialTimeout: time.Second, Heartbeat: time.Second, Hooks: []rehop.Hook{e}})
	got := make(chan *rehop.Delivery, 100)
	kit.Subscribe(t, c, rehop.Subscription{Queue: "q", Handler: kit.Into(got)})
	ctx := kit.Timeout(t, 2500*time.Millisecond)
	for ctx.Err() == nil {
		kit.Publish(t, c, rehop.Message{Key: "q"})
		kit.Receive(t, got, "message")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.in("publish", rehop.StateRecovering) + e.in("consume", rehop.StateRecovering); n != 0 {
		t.Errorf("got %d lost connections, want none: %v", n, e.states)
	}
}

// A broker that accepts and then says nothing.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	l := listen(t, nil)
	e := &events{}
	start := time.Now()
	c := kit.Open(t, rehop.Config{URL: "amqp://guest:guest@" + l + "/", DialTimeout: 500 * time.Millisecond, Hooks: []rehop.Hook{e}})
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Open took %v, want the dial timeout", took)
	}
	if got := c.State(); got != rehop.StateRecovering {
		t.Errorf("got state %s, want %s", got, rehop.StateRecovering)
	}
	start = time.Now()
	if err := c.Close(kit.Context(t)); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Close took %v while a handshake hung", took)
	}
}

// Open obeys its context.
func TestOpenObeysContext(t *testing.T) {
	t.Parallel()
	l := listen(t, nil)
	start := time.Now()
	_, err := rehop.Open(kit.Timeout(t, 300*time.Millisecond), rehop.Config{URL: "amqp://guest:guest@" + l + "/", Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v, want 0.3 s", took)
	}
}
