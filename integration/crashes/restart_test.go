package crashes

import (
	"slices"
	"testing"
	"time"
)

// restartInOrder: SIGTERM, every other time when publishers have all their confirms.
func restartInOrder(t *testing.T, seed uint64) tally {
	b := newBroker(t, "")
	p := b.serve()
	w := newTraffic(t, b, seed)
	w.start()
	n := times(4, 20)
	var took []time.Duration
	for i := range n {
		w.works(p)
		drained := i%2 == 0
		before := w.books.count().answers
		w.shows("answers", func() bool { return w.books.counts.answers > before+200 })
		if drained {
			w.stopPublishing()
		}
		doubts := w.books.count().unknown
		took = append(took, b.stop())
		if unknown := w.books.count().unknown; drained && unknown != doubts {
			t.Errorf("restart %d: %d messages in doubt, all of which had been sent before the broker was asked to stop, want 0", i+1, unknown-doubts)
		}
		p = b.serve()
		if drained {
			w.startPublishing()
		}
	}
	w.works(p)
	result := w.finish()
	result.kills, result.restarts = 1, n
	t.Logf("%d restarts, %d confirmed, %d in doubt; longest stop %v", n, result.confirmed, result.unknown, slices.Max(took).Round(time.Millisecond))
	return result
}
