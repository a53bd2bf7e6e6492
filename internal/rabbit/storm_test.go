package rabbit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func (s *storms) pauses(t *testing.T, d destination) bool {
	t.Helper()
	began := time.Now()
	if err := s.wait(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return time.Since(began) > 0
}

// Memory is bounded where every message has a key of its own, and publishing is slowed down there, too.
func TestStormOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s storms
		for i := range 2 * maxStorms {
			s.grow(destination{"full", fmt.Sprint("key ", i)})
		}
		if n := len(s.refusals); n > maxStorms+1 {
			t.Errorf("got %d destinations, want %d at most", n, maxStorms+1)
		}
		if !s.pauses(t, destination{"full", "another key"}) {
			t.Error("the exchange refuses all keys, and the next is not slowed down")
		}
		if s.pauses(t, destination{"empty", "key"}) {
			t.Error("another exchange is slowed down")
		}
		s.calm(destination{"full", "another key"})
		if s.pauses(t, destination{"full", "another key"}) {
			t.Error("a message was taken, and the next is slowed down")
		}
	})
}

// What was refused long ago does not count.
func TestStormEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s storms
		d := destination{"x", "k"}
		for range 2 * stormFrom {
			s.grow(d)
		}
		if !s.pauses(t, d) {
			t.Error("got no pause after refusals in a row")
		}
		time.Sleep(stormEnds)
		if s.pauses(t, d) {
			t.Error("slowed down by old refusals")
		}
		for i := range maxStorms {
			s.grow(destination{"x", fmt.Sprint(i)})
		}
		if len(s.refusals) > maxStorms {
			t.Errorf("got %d destinations, want %d: the old ones are of no use", len(s.refusals), maxStorms)
		}
	})
}
