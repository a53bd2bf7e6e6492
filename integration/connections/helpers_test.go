// Package connections tests how a client keeps its connections and consumers, on a real RabbitMQ.
package connections

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
)

// limit is far longer than anything here takes.
const limit = 20 * time.Second

func timeout(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// open opens a client named "test" that logs to the test's output if the test fails.
func open(t testing.TB, config rehop.Config) *rehop.Client {
	t.Helper()
	log := &logBuffer{}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	if config.Name == "" {
		config.Name = "test"
	}
	c, err := rehop.Open(timeout(t, limit), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return c
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// events remembers what a client's hooks are told, and when.
type events struct {
	mu        sync.Mutex
	states    []stateEvent
	consumers []consumerEvent
	published []error
	changed   chan struct{}
}

type stateEvent struct {
	rehop.StateChange
	at time.Time
}

type consumerEvent struct {
	rehop.ConsumerEvent
	at time.Time
}

func (e *events) record(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

func (e *events) OnState(s rehop.StateChange) {
	e.record(func() { e.states = append(e.states, stateEvent{s, time.Now()}) })
}

func (e *events) OnConsumer(c rehop.ConsumerEvent) {
	e.record(func() { e.consumers = append(e.consumers, consumerEvent{c, time.Now()}) })
}

func (e *events) OnPublish(_ context.Context, _ *rehop.Message, _ time.Duration, err error) {
	e.record(func() { e.published = append(e.published, err) })
}

// await waits until a condition holds, which is looked at after every event.
func (e *events) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(limit)
	for {
		e.mu.Lock()
		done := condition()
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		changed := e.changed
		e.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			e.mu.Lock()
			defer e.mu.Unlock()
			t.Fatalf("after %v still not: %s\nstates: %v\nconsumers: %v", limit, what, e.states, e.consumers)
		}
	}
}

// ups is how often the consumer of a queue began to receive.
func (e *events) ups(queue string) int { return e.countConsumer(queue, true) }

// downs is how often it ceased to.
func (e *events) downs(queue string) int { return e.countConsumer(queue, false) }

func (e *events) countConsumer(queue string, up bool) int {
	n := 0
	for _, c := range e.consumers {
		if c.Queue == queue && c.Up == up {
			n++
		}
	}
	return n
}

// in is how often a connection entered a state.
func (e *events) in(connection string, s rehop.State) int {
	n := 0
	for _, c := range e.states {
		if c.Connection == connection && c.State == s {
			n++
		}
	}
	return n
}

// errors are all that hooks were told.
func (e *events) errors() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := append([]error(nil), e.published...)
	for _, s := range e.states {
		all = append(all, s.Err)
	}
	for _, c := range e.consumers {
		all = append(all, c.Err)
	}
	return all
}

// wire is a Dial whose connections can be cut, and that can lead elsewhere.
type wire struct {
	mu    sync.Mutex
	taps  []*tap
	dials int
	addr  string // if set, where all connections go
}

type tap struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer // the beginning of what was written
}

func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dials++
	if w.addr != "" {
		addr = w.addr
	}
	w.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &tap{Conn: conn}
	w.mu.Lock()
	w.taps = append(w.taps, c)
	w.mu.Unlock()
	return c, nil
}

func (w *wire) lead(addr string) {
	w.mu.Lock()
	w.addr = addr
	w.mu.Unlock()
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// cut breaks the newest connection of a client named "test" with this role.
func (w *wire) cut(t testing.TB, role string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.taps) - 1; i >= 0; i-- {
		w.taps[i].mu.Lock()
		found := strings.Contains(w.taps[i].sent.String(), "test "+role)
		w.taps[i].mu.Unlock()
		if found {
			_ = w.taps[i].Close()
			return
		}
	}
	t.Fatalf("no connection is named %q", "test "+role)
}

func (c *tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.sent.Len() < 4096 {
		c.sent.Write(p)
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// closedPort is an address at which nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func host(t testing.TB, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// with is a URL with another host, user or password.
func with(t testing.TB, raw string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// connection is what the management API tells.
type connection struct {
	Name string `json:"name"`
	User string `json:"user"`
	// UserProvidedName is what the client calls itself.
	UserProvidedName string `json:"user_provided_name"`
	AuthMechanism    string `json:"auth_mechanism"`
	SSL              bool   `json:"ssl"`
}

// connections waits until the management API shows n connections of the virtual host.
func connections(t testing.TB, r *lab.Rabbit, n int) []connection {
	t.Helper()
	var got []connection
	lab.Eventually(t, limit, "connections shown by the management API", func() bool {
		var all []connection
		r.API("GET", "/api/vhosts/"+r.Vhost+"/connections", nil, &all)
		got = got[:0]
		for _, c := range all {
			if c.UserProvidedName != "" { // others are the test's own
				got = append(got, c)
			}
		}
		return len(got) == n
	})
	return got
}

// closeAll has the broker close connections.
func closeAll(r *lab.Rabbit, all []connection) {
	for _, c := range all {
		r.API("DELETE", "/api/connections/"+url.PathEscape(c.Name), nil, nil)
	}
}

// user makes a user who may do what configure says, and everything else.
func user(t testing.TB, r *lab.Rabbit, name, password, configure string) {
	t.Helper()
	r.API("PUT", "/api/users/"+name, map[string]string{"password": password, "tags": ""}, nil)
	r.API("PUT", "/api/permissions/"+r.Vhost+"/"+name, map[string]string{"configure": configure, "write": ".*", "read": ".*"}, nil)
	t.Cleanup(func() { r.API("DELETE", "/api/users/"+name, nil, nil) })
}

// collect is a handler that hands on what it gets.
func collect(got chan<- rehop.Delivery) rehop.Handler {
	return rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		got <- *d
		return nil
	})
}

func receive(t testing.TB, got <-chan rehop.Delivery) rehop.Delivery {
	t.Helper()
	select {
	case d := <-got:
		return d
	case <-time.After(limit):
		t.Fatalf("no message within %v", limit)
		return rehop.Delivery{}
	}
}

func publish(t testing.TB, c *rehop.Client, m rehop.Message) {
	t.Helper()
	if err := c.Publish(timeout(t, limit), m); err != nil {
		t.Errorf("publish: got %v, want nil", err)
	}
}

// counter counts from several goroutines.
type counter struct {
	mu sync.Mutex
	n  int
}

// add returns the new count.
func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// settle handles a first message. A subscription begins carefully, with one message at a time, and
// then opens its session again: what follows is not to be mixed up with that.
func settle(t testing.TB, c *rehop.Client, e *events, queue string, got <-chan rehop.Delivery) {
	t.Helper()
	publish(t, c, rehop.Message{ID: "settle", Key: queue})
	if d := receive(t, got); d.ID != "settle" || d.Queue != queue {
		t.Fatalf("got %q from %q, want the first message of %q", d.ID, d.Queue, queue)
	}
	e.await(t, "second session of "+queue, func() bool { return e.ups(queue) >= 2 })
}
