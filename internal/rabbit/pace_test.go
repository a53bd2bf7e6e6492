package rabbit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
)

// After a burst of frames a channel stays open for a while.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		p.sent(ackBurst)
		if wait := p.rest(); wait != 0 {
			t.Errorf("after %d frames it rests for %v, want not at all", ackBurst, wait)
		}
		time.Sleep(ackRest / 2)
		p.sent(1)
		if wait := p.rest(); wait != ackRest {
			t.Errorf("after one more it rests for %v, want %v", wait, ackRest)
		}
		time.Sleep(ackRest)
		if wait := p.rest(); wait > 0 {
			t.Errorf("after a while it rests for %v, want not at all", wait)
		}
		p.sent(1)
		if wait := p.rest(); wait != 0 {
			t.Errorf("after a single frame it rests for %v, want not at all", wait)
		}
	})
}

// After a burst of acks, Sync waits until none is kept back. With a small prefetch none ever is.
func TestSyncAfterBurst(t *testing.T) {
	for name, c := range map[string]struct {
		prefetch, acks int
		took           time.Duration
	}{
		"burst":                 {unheld + 1, unheld, ackRest},
		"no burst":              {unheld + 1, ackBurst, 0},
		"with a small prefetch": {unheld, unheld - 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				line, _ := heldLine(t, broker.RabbitMQ43, none, true)
				publishMore(t, line, unheld)
				s, err := line.openSession(t.Context(), ConsumeOptions{Queue: "q"}, c.prefetch)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, ok := s.Next(); !ok { // it is not acked, so each of the others is acked alone
					t.Fatal("the session has ended")
				}
				for i := range c.acks {
					d, ok := s.Next()
					if !ok || !d.Ack() {
						t.Fatalf("message %d: the session has ended", i)
					}
				}
				began := time.Now()
				s.Sync()
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}
