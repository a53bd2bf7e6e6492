package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// vacate moves messages out of the queue until it can be deleted: nothing has come for Settle, no consumer holds a message of it, it delays none, and no
// other queue holds messages that it would dead-letter to this one by its name.
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

// still waits until the queue can be deleted, or returns false when it has to be emptied again.
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
		// During the first pass a message may have gone from a queue that was yet to be looked at into one that had been.
		if left <= 0 && pending == "" && passes > 1 {
			return true, nil
		}
		var err error
		switch {
		case left <= 0 && pending == "":
		case left <= 0:
			err = m.waiting(ctx, fmt.Sprintf("the broker to tell whether a consumer holds messages of queue %q", pending))
		default:
			err = rabbit.Pause(ctx, min(lookAgain, left))
		}
		if err != nil {
			return false, err
		}
	}
}

// statistics are what the broker says of a queue from the moment on in which they are first read.
//
// Only statistics tell what consumers hold, and they are late: RabbitMQ has each queue write them down every few seconds, collects what was
// written every few seconds, and shows what was last collected. With the number of messages a queue writes down the reductions that its process has
// used, and writing uses some, so figures with other reductions are other ones. The first that are seen may be older than the first look. The second may be, too:
// written before it, and collected after it. The third were written after the second were collected, and so after the first look. But the counts of a
// queue may be shown later than its reductions, up to seconds later where there are very many queues. One collection ends before the next begins, so with the
// fourth reductions the counts are as new as the third at least.
type statistics struct {
	queue   topology.LiveQueue
	began   time.Time
	last    int // reductions
	changes int // of them
}

// away is how many messages the broker says that consumers hold or that the queue delays, and whether that is as new as the first call.
func (s *statistics) away(ctx context.Context, m *migration) (n int, sure bool, err error) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	told, err := m.admin.management.figures(ctx, s.queue.Name)
	switch {
	case missing(err):
		return 0, true, nil
	case err != nil || told.Unacked == nil:
		return 0, false, err
	case m.instant:
		return told.away(), true, nil
	case told.Reductions == nil: // not RabbitMQ: no more is known than that other brokers are not slower
		return told.away(), time.Since(s.began) >= defaultSettle, nil
	}
	if now := *told.Reductions; now != s.last {
		if s.last != 0 {
			s.changes++
		}
		s.last = now
	}
	return told.away(), s.changes >= 3, nil
}
