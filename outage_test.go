package rehop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// While something that the handler needs is down, one message probes from time to time and all others wait. That may take hours: no
// attempt is burnt, nothing is lost, and work goes on soon after the end.
func TestOutageOfHours(t *testing.T) {
	const messages, down, slowest = 40, 3 * time.Hour, 30 * time.Second
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		began := startClock()
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			if began.now() < down {
				return rehop.Unavailable(errNotYet)
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscription{Queue: "q", Handler: log, Concurrency: 4, ProbeMin: time.Second, ProbeMax: slowest})
		for i := range messages {
			publish(t, b.Client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
		}
		time.Sleep(down)
		b.AwaitEmpty("q")
		handled := make(map[string]int)
		probes := 0
		for _, r := range log.all() {
			if r.Attempt != 1 {
				t.Errorf("message %s at %v: got attempt %d, want 1", r.ID, r.at, r.Attempt)
			}
			if r.at < down {
				probes++
				continue
			}
			handled[r.ID]++
			within(t, "handled", r.at, down, down+2*slowest)
		}
		if len(handled) != messages {
			t.Errorf("messages handled: got %d, want %d", len(handled), messages)
		}
		// One probe takes from half of the longest pause to the whole; four workers begin together, and so at each end of a hold.
		least, most := int(down/slowest)/2, int(down/(slowest/2))*2
		if probes < least || probes > most {
			t.Errorf("runs of the handler in %v: got %d, want from %d to %d", down, probes, least, most)
		}
		if failed, _ := b.Depth("q.failed"); failed != 0 {
			t.Errorf("failed messages: got %d, want none", failed)
		}
	})
}
