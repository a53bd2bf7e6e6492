package sweeping

import (
	"fmt"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
)

// A replay learns of a consumer timeout that is shorter than configured when the broker requeues messages, and continues. Nothing is lost, and
// nothing is replayed twice.
func TestConsumerTimeout(t *testing.T) {
	t.Parallel()
	s := sceneOn(t, lab.Alone(t)) // it changes the whole node
	const n, wanted = 60, 12
	s.fill(n)
	var ids []string
	for i := range wanted {
		ids = append(ids, fmt.Sprint(i*n/wanted))
	}
	s.rabbit.Services("ctl", "single", "eval", "application:set_env(rabbit, consumer_timeout, 5000), application:set_env(rabbit, channel_tick_interval, 500).")
	p, err := s.admin.Replay(s.ctx, queue, admin.Options{Filter: admin.Filter{IDs: ids}, Rate: 1})
	if want := (admin.Progress{Seen: n, Done: wanted, Kept: n - wanted, Total: n}); err != nil || p != want {
		t.Errorf("got %+v and %v, want %+v", p, err, want)
	}
	if got := s.drain(queue); fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("replayed: got %v, want %v", got, ids)
	}
	if got := len(s.drain(failed)); got != n-wanted {
		t.Errorf("kept: got %d messages, want %d", got, n-wanted)
	}
}
