package demo

import "time"

// Sums account for all messages by the ids of their events. Failed messages are counted on the broker.
type Sums struct {
	Messages int         `json:"messages"`
	Retries  int         `json:"retries"`
	Replayed int         `json:"replayed"`
	Seconds  float64     `json:"seconds"`
	Queues   []QueueSums `json:"queues"`
}

// QueueSums are the sums of one queue.
type QueueSums struct {
	Queue     string `json:"queue"`
	Published int    `json:"published"`
	Handled   int    `json:"handled"`
	Failed    int    `json:"failed"`
	Removed   int    `json:"removed"` // by the user, in the console
	Lost      int    `json:"lost"`
	Twice     int    `json:"twice"` // handled more than once, or handled and in the failed queue as well
}

// Balanced reports whether published = handled + failed + removed in every queue, with nothing lost and nothing twice.
func (s Sums) Balanced() bool {
	for _, q := range s.Queues {
		if q.Lost != 0 || q.Twice != 0 || q.Published != q.Handled+q.Failed+q.Removed {
			return false
		}
	}
	return true
}

// sum compares the books with the events in the failed queues.
func (b *books) sum(failedEvents map[string][]string) Sums {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := make(map[ticket]int)
	for queue, ids := range failedEvents {
		for _, id := range ids {
			found[ticket{queue, id}]++
		}
	}
	s := Sums{Messages: b.messages, Retries: b.retries, Replayed: b.replayed, Seconds: time.Since(b.began).Seconds()}
	for _, queue := range []string{Summary, Notification} {
		q := QueueSums{Queue: queue}
		for t, e := range b.entries {
			if t.queue != queue {
				continue
			}
			if e.published {
				q.Published++
			}
			switch copies := e.done + found[t]; {
			case copies == 0:
				q.Lost++
			case copies > 1:
				q.Twice++
			}
			if e.done > 0 {
				q.Handled++
			} else if found[t] > 0 {
				q.Failed++
			}
		}
		if queue == Notification {
			q.Removed = min(b.removed, q.Lost)
			q.Lost -= q.Removed
		}
		s.Queues = append(s.Queues, q)
	}
	return s
}
