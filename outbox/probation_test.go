package outbox

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A relay that renews its leases and cannot read gives them to others, and later tries with one, ever more seldom, until it has read.
func TestProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 5 * time.Second
		var p probation
		fail := func() {
			time.Sleep(lease)
			p.noteRead(errors.New("no answer"))
		}
		want := func(what string, begins, rests bool, share int) {
			t.Helper()
			if got := p.begin(lease); got != begins {
				t.Errorf("%s: begins: got %v, want %v", what, got, begins)
			}
			if got := p.paused(); got != rests {
				t.Errorf("%s: rests: got %v, want %v", what, got, rests)
			}
			if got := p.share(8); got != share {
				t.Errorf("%s: share: got %d, want %d", what, got, share)
			}
		}
		want("at first", false, false, 8)
		fail()
		want("after one fault", false, false, 8)
		fail()
		want("after two faults", true, true, 1)
		time.Sleep(2 * lease)
		want("after the rest", false, false, 1)
		fail()
		want("after a fault in the trial", false, false, 1)
		time.Sleep(lease)
		want("that is older than a lease", true, true, 1)
		time.Sleep(2 * lease)
		want("the second rest is longer", false, true, 1)
		time.Sleep(longestPause)
		p.noteRead(nil)
		want("after a success", false, false, 8)
	})
}
