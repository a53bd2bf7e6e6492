package rehop_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// A stop that comes while the consumer is being replaced waits for a slow broker: otherwise the new consumer, which nobody uses, gets the message that the
// stop returns, and the broker takes it back like the message of a process that has died.
func TestStopsOfSlowBrokerAreNotCrashes(t *testing.T) {
	for _, kind := range []layout.QueueType{layout.Classic, layout.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				results := make(chan rehop.Result, 100)
				config := b.Config()
				config.Hooks = append(config.Hooks, rehop.Hooks{OnResult: func(_ context.Context, _ *rehop.Delivery, h rehop.Result) {
					results <- h
				}})
				dial := config.Dial
				config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return newDistant(conn, 900*time.Millisecond), nil
				}
				c, err := rehop.Open(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				begun := make(chan int, 10)
				for i := range 40 {
					sub := subscribe(t, c, rehop.Subscriber{Queue: "q", QueueType: kind, CrashLimit: 3, Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
						begun <- d.Attempt
						<-ctx.Done()
						return ctx.Err()
					})})
					if i == 0 {
						publish(t, c, rehop.Message{Key: "q"})
					}
					for waiting := true; waiting; {
						select {
						case <-begun:
							waiting = false
						case h := <-results: // a classic queue's message goes round once more
							if h.Outcome != rehop.OutcomeReturned {
								t.Fatalf("start %d: got outcome %s, kind %s (%v), want it handled", i, h.Outcome, h.Kind, h.Err)
							}
						}
					}
					if err := sub.Stop(); err != nil {
						t.Errorf("stop %d: got %v, want nil", i, err)
					}
				}
				if err := c.Close(t.Context()); err != nil {
					t.Errorf("close: got %v, want nil", err)
				}
			})
		})
	}
}

// distant is a connection to a broker that is far away.
type distant struct {
	net.Conn
	pieces chan piece
	closed chan struct{}
}

// piece is what was written at once.
type piece struct {
	data []byte
	at   time.Time
}

func newDistant(conn net.Conn, delay time.Duration) net.Conn {
	d := &distant{Conn: conn, pieces: make(chan piece, 1000), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-d.pieces:
				select {
				case <-time.After(time.Until(p.at.Add(delay))):
				case <-d.closed:
					return
				}
				if _, err := conn.Write(p.data); err != nil {
					return
				}
			case <-d.closed:
				return
			}
		}
	}()
	return d
}

func (d *distant) Write(p []byte) (int, error) {
	select {
	case d.pieces <- piece{append([]byte(nil), p...), time.Now()}:
		return len(p), nil
	case <-d.closed:
		return 0, net.ErrClosed
	}
}

func (d *distant) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return d.Conn.Close()
}
