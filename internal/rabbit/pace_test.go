package rabbit

import (
	"testing"
	"testing/synctest"
	"time"
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
