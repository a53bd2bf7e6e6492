// Package publishing tests what becomes of published messages, on a real RabbitMQ.
package publishing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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

// open opens a client that logs to the test's output if the test fails.
func open(t testing.TB, config rehop.Config) *rehop.Client {
	t.Helper()
	log := &logBuffer{}
	config.Logger = slog.New(slog.NewTextHandler(log, nil))
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
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
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

// queue declares a classic queue by hand, and binds it.
func queue(t testing.TB, ch *amqp.Channel, name string, args amqp.Table, bindings ...[2]string) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings {
		if err := ch.QueueBind(name, b[1], b[0], false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// take takes all messages out of a queue.
func take(t testing.TB, ch *amqp.Channel, queue string) []amqp.Delivery {
	t.Helper()
	var all []amqp.Delivery
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// outcomes are the errors that Publish promises.
var outcomes = []error{rehop.ErrUnroutable, rehop.ErrRefused, rehop.ErrUnknown, rehop.ErrBlocked, rehop.ErrDisconnected,
	rehop.ErrTooLarge, rehop.ErrInvalid, rehop.ErrClosed}

// wantError checks that err is want, and no other of the promised outcomes.
func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
		return
	}
	for _, other := range outcomes {
		if other != want && errors.Is(err, other) {
			t.Errorf("%s: got %v, which is also %q; want only %q", what, err, other, want)
		}
	}
}

// wire is a Dial that can hold back what the broker sends, and cut connections.
type wire struct {
	mu   sync.Mutex
	taps []*tap
}

// tap is one connection.
type tap struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer  // everything that was written
	held chan struct{} // not nil: reads wait until it is closed
	cut  chan struct{}
	once sync.Once
}

func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &tap{Conn: conn, cut: make(chan struct{})}
	w.mu.Lock()
	w.taps = append(w.taps, c)
	w.mu.Unlock()
	return c, nil
}

// publisher is the newest connection on which a client named "test" publishes.
func (w *wire) publisher(t testing.TB) *tap {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.taps) - 1; i >= 0; i-- {
		if w.taps[i].count("test publish") > 0 {
			return w.taps[i]
		}
	}
	t.Fatal("no connection is named \"test publish\"")
	return nil
}

func (c *tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// count is how often a text was sent.
func (c *tap) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.sent.String(), text)
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-c.cut:
			return 0, net.ErrClosed
		}
	}
	return n, err
}

// hold keeps back what the broker sends from now on, until release or Cut.
func (c *tap) hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	c.held = held
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	}
}

// Close drops what was held back.
func (c *tap) Close() error {
	c.once.Do(func() { close(c.cut) })
	return c.Conn.Close()
}

func depth(t testing.TB, r *lab.Rabbit, ch *amqp.Channel, queue string, want int) {
	t.Helper()
	if got := r.Depth(ch, queue); got != want {
		t.Errorf("queue %s: got %d messages, want %d", queue, got, want)
	}
}

// counter counts from several goroutines.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// publishHook remembers what became of messages.
type publishHook struct {
	mu       sync.Mutex
	outcomes map[string]error
}

func (h *publishHook) OnPublish(_ context.Context, m *rehop.Message, _ time.Duration, err error) {
	h.mu.Lock()
	h.outcomes[m.ID] = err
	h.mu.Unlock()
}

func (h *publishHook) get(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outcomes[id]
}
