package rabbit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A message that came past the gate just before the loss of the connection was reported waits for a connection. Close ends that at once, because the
// message was not sent: it does not wait for a confirm.
func TestCloseWhileWaitingForConnection(t *testing.T) {
	for name, exchange := range map[string]string{"default exchange": "", "named exchange": "x"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := errors.New("connection refused")
				link, p, _ := start(t, &fakeBroker{fail: refused})
				synctest.Wait()
				p.SetState(Open, nil)
				if exchange != "" { // it is looked up on a channel that was open
					p.mu.Lock()
					p.session = &pubSession{ch: &amqp.Channel{}, exchanges: make(map[string]*lookup)}
					p.mu.Unlock()
				}
				result := make(chan error, 1)
				go func() { result <- p.Publish(t.Context(), exchange, "q", &Publishing{MessageId: "1"}, true) }()
				synctest.Wait()
				if p.gate.underway() != 1 || len(result) > 0 {
					t.Fatalf("got %d messages past the gate, want one that waits", p.gate.underway())
				}
				p.SetState(Recovering, refused)
				began := time.Now()
				p.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if n := p.Quiet(ctx); n != 0 || time.Since(began) > 0 {
					t.Errorf("got %d unconfirmed messages after %v, want none at once", n, time.Since(began))
				}
				stop(link, p)
				if err := <-result; !errors.Is(err, ErrClosed) {
					t.Errorf("got %v, want ErrClosed", err)
				}
			})
		})
	}
}
