package publishing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// Delayed messages to a queue that is full do not hold up those to others.
func TestDelayedToFullQueueHoldsUpNobody(t *testing.T) {
	t.Parallel()
	const messages, delay = 150, 100 * time.Millisecond // more than the 32 that jam a broker
	for name, to := range map[string]rehop.Message{"by exchange": {Exchange: "x", Key: "k"}, "by queue": {Key: "full"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			c := kit.OpenQuick(t, r, rehop.Config{})
			release := make(chan struct{})
			defer close(release)
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "full", Exchange: "x", MaxLength: 1,
				Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
					select {
					case <-release:
					case <-ctx.Done():
					}
					return ctx.Err()
				})})
			got := subscribe(t, c, rehop.Subscriber{Queue: "roomy", Exchange: "free"})
			var err error
			for tries := 0; tries < 100 && err == nil; tries++ { // a quorum queue accepts a few more before it refuses
				err = c.Publish(kit.Context(t), to)
			}
			wantError(t, "full queue", err, rehop.ErrRefused)
			to.Delay = delay
			for range messages { // one by one: of a burst, the full queue would take more than it may
				kit.Publish(t, c, to)
			}
			// What follows is behind them in the same queues, and the full one remains full.
			for _, m := range []rehop.Message{{Exchange: "free", Key: "k", Delay: delay}, {Key: "roomy", Delay: delay}} {
				kit.Publish(t, c, m)
				kit.Receive(t, got, fmt.Sprintf("message to exchange %q with key %q", m.Exchange, m.Key))
			}
		})
	}
}

// The connection is lost while a delayed message's way is declared: it is declared and sent on the next
// one.
func TestDelayedSurvivesCutDuringDeclares(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 60, 200, 500, 1000, 1500} {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			t.Parallel()
			r, s := lab.Single(t), &shears{}
			c := kit.OpenQuick(t, r, rehop.Config{Dial: s.dial})
			kit.Queue(t, r.Channel(), "q", nil)
			s.arm(n)
			if err := c.Publish(kit.Context(t), rehop.Message{ID: "m", Key: "q", Delay: 100 * time.Millisecond}); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if !s.disarm() {
				t.Fatalf("fewer than %d bytes were sent: nothing was cut", n)
			}
			if d := kit.Take(t, r.Channel(), "q"); d.MessageId != "m" {
				t.Errorf("got message %q, want m", d.MessageId)
			}
		})
	}
}

// shears is a Config.Dial that cuts one connection.
type shears struct {
	mu    sync.Mutex
	armed bool
	cut   bool
	left  int
}

func (s *shears) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &shearedConn{conn, s}, nil
}

// arm has that connection cut that goes beyond n more bytes.
func (s *shears) arm(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.left = true, n
}

// disarm reports whether one was cut.
func (s *shears) disarm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	return s.cut
}

func (s *shears) cuts(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed {
		return false
	}
	if s.left -= n; s.left >= 0 {
		return false
	}
	s.armed, s.cut = false, true
	return true
}

type shearedConn struct {
	net.Conn
	shears *shears
}

func (c *shearedConn) Write(p []byte) (int, error) {
	if c.shears.cuts(len(p)) {
		_ = c.Close()
		return 0, errors.New("cut")
	}
	return c.Conn.Write(p)
}
