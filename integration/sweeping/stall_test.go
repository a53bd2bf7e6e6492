package sweeping

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/rabbit"
)

// While the leader of a queue does not answer, RabbitMQ's channel sends it a few acks, keeps further ones back, and answers as before. A sweep
// reports no removal that is kept back: if the connection is lost then, all that were reported are removed.
func TestRemoveWithoutLeader(t *testing.T) {
	t.Parallel()
	const (
		all     = 400
		removed = 100 // one by one: more than the channel sends
		unheld  = 20  // fewer
	)
	s := newScene(t)
	s.fill(all)
	through, err := url.Parse(s.rabbit.URL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(through.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	through.Host = p.Addr()
	link := rabbit.NewLink("sweep", rabbit.Options{
		URLs: []string{through.String()}, Dial: new(net.Dialer).DialContext, Name: "test", Heartbeat: 10 * time.Second, DialTimeout: 10 * time.Second,
		Backoff: rabbit.Backoff{Min: time.Millisecond, Max: time.Second},
	}, func(rabbit.State, error) {})
	defer link.Close()
	line, err := link.Conn(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	sweep, _, err := line.OpenSweep(s.ctx, failed, rabbit.SweepOptions{Room: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var batches []rabbit.Batch // of one message each, of a window that is not full
	for kept := 0; len(batches) < removed; {
		b, err := sweep.Take(s.ctx, 1, 1<<20, all)
		if err != nil || len(b.Messages) != 1 {
			t.Fatalf("got %d messages and %v, want one", len(b.Messages), err)
		}
		if kept++; kept > all/4 {
			batches = append(batches, b)
		}
	}
	release := s.rabbit.HoldLeader(failed)
	gone := make(map[string]bool)
	for _, b := range batches {
		// The removal that must wait for the leader ends with this.
		ctx, end := context.WithTimeout(s.ctx, 5*time.Second)
		err := sweep.Remove(ctx, b, []uint64{b.Messages[0].DeliveryTag})
		end()
		if err != nil {
			t.Logf("after %d removals: %v", len(gone), err)
			break
		}
		gone[b.Messages[0].MessageId] = true
	}
	p.Cut("")
	release()
	s.released()
	if len(gone) < unheld {
		t.Errorf("got %d removals without a leader, want at least %d", len(gone), unheld)
	}
	for _, id := range s.drain(failed) {
		if gone[id] {
			t.Errorf("message %s was removed, and is still in the queue", id)
		}
	}
	if err := sweep.Close(s.ctx); err != nil {
		t.Log(err) // the connection was cut
	}
}
