package delays

import (
	"testing"
	"testing/synctest"
	"time"
)

// Messages that come back early make the topology suspect less and less often.
func TestDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDeclarer(nil)
		doubted := func() bool { return d.Doubt().Equal(time.Now()) }
		for i, test := range []struct {
			after time.Duration // the step before
			want  bool
		}{
			{0, true},
			{100 * time.Millisecond, false}, // trusted for 200 ms
			{100 * time.Millisecond, true},
			{300 * time.Millisecond, false}, // for 400 ms
			{100 * time.Millisecond, true},
			{10*time.Minute + 1, true}, // long ago, so it begins again
			{200 * time.Millisecond, true},
			{200 * time.Millisecond, false},
		} {
			time.Sleep(test.after) // virtual
			if got := doubted(); got != test.want {
				t.Errorf("step %d: got doubt %v, want %v", i, got, test.want)
			}
		}
		for range 20 { // never for longer than a minute
			time.Sleep(time.Minute)
			if !doubted() {
				t.Error("a minute later: got no doubt, want one")
			}
		}
	})
}
