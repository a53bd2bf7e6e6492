package outbox

import (
	"testing"
	"time"

	"github.com/rehop/rehop"
)

// While a message waits for room nothing is read that could not be kept; here there is not even a database to read from.
func TestNoReadWhileCramped(t *testing.T) {
	r := newRun(Relay{Client: &scripted{state: rehop.StateOpen}}.withDefaults())
	r.leases.take(time.Now(), []int{0})
	d := &dispatcher{run: r, lanes: newLanes(), running: 1}
	d.cramped = d.lanes[0]
	if wait, err := d.poll(t.Context(), t.Context()); wait != r.Poll || err != nil {
		t.Errorf("got a look again after %v, %v; want %v", wait, err, r.Poll)
	}
}
