package admin

import (
	"context"
	"time"

	"github.com/rehop/rehop/topology"
)

// statistics are the broker's statistics of a queue since they were first read.
//
// Only statistics show unacked messages, and they are late: in RabbitMQ each queue writes them every few seconds, a collector collects what was
// written every few seconds, and the API shows what was last collected. With the number of messages a queue writes the reductions that its process has
// used. Writing uses some, so figures with other reductions are newer ones. The first figures may be older than the first request. The second
// may be, too: written before it, and collected after it. The third were written after the second were collected, and so after the first request. But the
// counts of a queue may be shown later than its reductions, up to seconds later if there are very many queues. One collection ends before the next begins,
// so with the fourth reductions the counts are at least as new as the third.
type statistics struct {
	queue   topology.LiveQueue
	began   time.Time
	last    int       // reductions
	changes int       // of them
	newest  time.Time // when they changed last, or were first read
	same    int       // how often they were read since
}

// statisticsLimit is for how long new statistics are awaited. A broker shows them every few seconds, or it collects none.
const statisticsLimit = 2 * time.Minute

// areMissing reports whether the broker has shown no new figures for statisticsLimit: then it will show none.
func (s *statistics) areMissing() bool {
	return s.same >= 2 && time.Since(s.newest) >= statisticsLimit
}

// away is how many messages are unacked or delayed, and whether this figure is newer than the first call. instant: the broker's statistics are never late.
func (s *statistics) away(ctx context.Context, api *management, instant bool) (n int, sure bool, err error) {
	if s.began.IsZero() {
		s.began = time.Now()
		s.newest = s.began
	}
	f, err := api.figures(ctx, s.queue.Name)
	switch {
	case missing(err):
		return 0, true, nil
	case err != nil || f.Unacked == nil:
		s.same++
		return 0, false, err
	case instant:
		return f.notReady(), true, nil
	case f.Reductions == nil: // not RabbitMQ: other brokers are assumed to be no slower
		return f.notReady(), time.Since(s.began) >= defaultSettle, nil
	}
	s.same++
	if now := *f.Reductions; now != s.last {
		if s.last != 0 {
			s.changes++
		}
		s.last, s.newest, s.same = now, time.Now(), 0
	}
	return f.notReady(), s.changes >= 3, nil
}
