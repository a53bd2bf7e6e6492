package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// vacate moves messages out of the queue until it can be deleted: no message has arrived for Settle, none is unacked or delayed, and no other queue holds
// messages that it would dead-letter to this one by its name.
func (m *migration) vacate(ctx context.Context) error {
	queue := m.want.Name
	for {
		if err := m.empty(ctx, queue, layouts.AsideExchange(queue), 0); err != nil {
			return err
		}
		still, err := m.still(ctx)
		if still || err != nil {
			return err
		}
	}
}

// still waits until the queue can be deleted, or returns false if it has to be emptied again.
func (m *migration) still(ctx context.Context) (bool, error) {
	watched := []*statistics{{queue: m.have}}
	for _, f := range m.feeders {
		if f.lossy {
			watched = append(watched, &statistics{queue: f.LiveQueue})
		}
	}
	since := time.Now()
	for passes := 1; ; passes++ {
		pending := ""
		for i, s := range watched {
			ready, err := m.ready(ctx, s.queue)
			if err != nil {
				return false, err
			}
			if i == 0 && ready > 0 {
				return false, nil
			}
			if ready > 0 {
				return false, m.waiting(ctx, fmt.Sprintf("%d messages of queue %q that it dead-letters to this one by its name", ready, s.queue.Name))
			}
			held, sure, err := s.away(ctx, m)
			switch {
			case err != nil:
				return false, err
			case held > 0 && i == 0:
				return false, m.waiting(ctx, fmt.Sprintf("%d messages of queue %q that consumers hold or that it delays", held, s.queue.Name))
			case held > 0:
				return false, m.waiting(ctx, fmt.Sprintf("%d messages that consumers of queue %q hold or that it delays, and it dead-letters to this one by its name", held, s.queue.Name))
			case !sure:
				pending = s.queue.Name
			}
		}
		left := m.options.Settle - time.Since(since)
		// During the first pass a message may have moved from a queue that was not yet checked to one that was.
		if left <= 0 && pending == "" && passes > 1 {
			return true, nil
		}
		var err error
		switch {
		case left <= 0 && pending == "":
		case left <= 0:
			err = m.waiting(ctx, fmt.Sprintf("the broker to show whether consumers hold messages of queue %q", pending))
		default:
			err = rabbit.Pause(ctx, min(pollPause, left))
		}
		if err != nil {
			return false, err
		}
	}
}

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
	last    int // reductions
	changes int // of them
}

// away is how many messages are unacked or delayed, and whether this figure is newer than the first call.
func (s *statistics) away(ctx context.Context, m *migration) (n int, sure bool, err error) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	f, err := m.admin.management.figures(ctx, s.queue.Name)
	switch {
	case missing(err):
		return 0, true, nil
	case err != nil || f.Unacked == nil:
		return 0, false, err
	case m.instant:
		return f.away(), true, nil
	case f.Reductions == nil: // not RabbitMQ: other brokers are assumed to be no slower
		return f.away(), time.Since(s.began) >= defaultSettle, nil
	}
	if now := *f.Reductions; now != s.last {
		if s.last != 0 {
			s.changes++
		}
		s.last = now
	}
	return f.away(), s.changes >= 3, nil
}
