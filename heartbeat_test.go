package rehop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// states is a hook that writes down when connections change.
type states struct {
	clock
	changes chan change
}

type change struct {
	at time.Duration
	rehop.StateChange
}

func newStates() *states { return &states{startClock(), make(chan change, 1000)} }

// OnState writes down a change.
func (s *states) OnState(c rehop.StateChange) { s.changes <- change{s.now(), c} }

// next waits for the next change of a connection to a state.
func (s *states) next(connection string, state rehop.State) change {
	for c := range s.changes {
		if c.Connection == connection && c.State == state {
			return c
		}
	}
	panic("never closed")
}

func (s *states) observe() rehoptest.Option {
	return rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, rehop.Hooks{OnState: s.OnState}) })
}

const beat = 10 * time.Second

// A broker that is silent is given up, and the client connects again.
func TestSilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newStates()
		b := rehoptest.Open(t, withHeartbeat(beat), seen.observe())
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: newLogbook(fail), Retry: rehop.NoRetry()})
		time.Sleep(time.Hour) // heartbeats alone keep a connection alive
		synctest.Wait()
		if n := len(seen.changes); n != 2 {
			t.Fatalf("changes in an hour: got %d, want 2, one for each connection that was made", n)
		}
		b.Silence()
		silent := seen.now()
		lost := seen.next("consume", rehop.StateRecovering)
		// What came last may have come up to a heartbeat before.
		within(t, "noticed after", lost.at-silent, beat/2, 2*beat)
		back := seen.next("consume", rehop.StateOpen)
		within(t, "connected again after", back.at-lost.at, 0, time.Second)
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitFailed("q", 1)
	})
}

// A client that is silent for two heartbeats is disconnected by the broker, which then redelivers its unacked messages.
func TestSilentClient(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		end := make(chan struct{})
		log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			if !d.Redelivered {
				<-end
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 2, Timeout: time.Hour})
		publish(t, b.Client, rehop.Message{Key: "q"})
		synctest.Wait()
		b.Silence()
		silent := log.now()
		time.Sleep(5 * beat)
		close(end)
		runs := log.all()
		if len(runs) != 2 || !runs[1].Redelivered || runs[1].Attempt != 1 {
			t.Fatalf("runs: got %+v, want two, the second redelivered, both attempt 1", runs)
		}
		within(t, "delivered again after", runs[1].at-silent, 2*beat, 3*beat)
		b.AwaitEmpty("q")
	}, withHeartbeat(beat))
}
