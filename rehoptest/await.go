package rehoptest

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
)

// AwaitEmpty waits until a queue has no work left: no message is ready or unacked, and none waits in a delay
// queue for its return. Messages in the failed queue do not count. If messages are handled in order by key, none waits
// in the held queue, and the queue is all of its partitions.
func (b *Broker) AwaitEmpty(queue string) {
	b.t.Helper()
	b.await(fmt.Sprintf("queue %q to be empty", queue), func() string {
		b.t.Helper()
		for n := 0; n == 0 || n < layouts.MaxPartitions && b.control.Queue(vhost, layouts.PartitionQueue(queue, n)) != nil; n++ {
			if state := b.work(layouts.PartitionQueue(queue, n)); state != "" {
				return state
			}
		}
		return ""
	})
}

// work is what a queue still has to do.
func (b *Broker) work(queue string) string {
	b.t.Helper()
	ready, unacked := b.Depth(queue)
	held := layouts.HeldQueue(queue)
	ordered := b.control.Queue(vhost, held) != nil
	if ordered { // its owner always has a note of its own unacked
		ready, unacked = b.unhandled(queue)
	}
	if ready+unacked > 0 {
		return fmt.Sprintf("%d messages are ready and %d unacked", ready, unacked)
	}
	waiting := b.waiting(queue)
	if ordered {
		ready, unacked = b.unhandled(held)
		waiting += ready + unacked
	}
	if waiting > 0 {
		return fmt.Sprintf("%d messages wait to return", waiting)
	}
	return ""
}

// unhandled counts the messages of a queue that are not rehop's own notes about order.
func (b *Broker) unhandled(queue string) (ready, unacked int) {
	b.t.Helper()
	q := b.queue(queue)
	count := func(all []brokertest.Message, err error) (n int) {
		b.t.Helper()
		if err != nil {
			b.t.Fatalf("rehoptest: %v", err)
		}
		for _, m := range all {
			if !envelope.IsOrderNote(envelope.Text(m.Headers[envelope.OrderKind])) {
				n++
			}
		}
		return n
	}
	return count(q.Messages()), count(q.Unacked())
}

// waiting is how many messages wait for their return to a queue: failed ones in the delay queues of any
// layout, and delayed ones.
func (b *Broker) waiting(queue string) (n int) {
	b.t.Helper()
	for _, q := range b.control.Queues(vhost) {
		if q.Name == layouts.LandingQueue(queue) {
			s := q.Counts()
			n += s.Ready + s.Unacked
			continue
		}
		if _, passing := q.Arguments["x-message-ttl"]; !passing || q.Name == queue {
			continue
		}
		for _, m := range b.peek(q.Name) {
			headers := m.Headers
			failed := headers[envelope.Queue] == queue || envelope.LastDeath(headers) == queue
			delayed := headers[layouts.HeaderTo] == layouts.ToQueue && m.Key == layouts.LandingQueue(queue)
			if failed || delayed {
				n++
			}
		}
	}
	return n
}

// AwaitFailed waits until the failed queue of a queue has at least n messages, and returns all of them, oldest
// first. In layouts other than layout.Native use AwaitMessages with the name of the failed queue.
func (b *Broker) AwaitFailed(queue string, n int) []Message {
	b.t.Helper()
	return b.AwaitMessages(layouts.FailedQueue(queue), n)
}

// AwaitMessages waits until at least n messages are ready in a queue, and returns all of them, oldest first.
func (b *Broker) AwaitMessages(queue string, n int) []Message {
	b.t.Helper()
	b.await(fmt.Sprintf("%d messages in %q", n, queue), func() string {
		b.t.Helper()
		if ready, _ := b.Depth(queue); ready < n {
			return fmt.Sprintf("%d messages are there", ready)
		}
		return ""
	})
	return b.Messages(queue)
}

// The broker does not report changes of a queue, so it is polled, and checked at once when a client reports an
// event. In virtual time the pauses grow up to when the next message is due: a year has too many seconds to
// poll each of them.
const (
	firstPause       = time.Millisecond
	longPause        = 50 * time.Millisecond
	longVirtualPause = time.Second // while no message waits
)

// await waits until nothing is missing, and no message is on its way from one queue to another. It checks
// twice: a message that is due at this moment may not have begun to move.
func (b *Broker) await(what string, missing func() string) {
	b.t.Helper()
	since, pause := time.Now(), firstPause
	for last, there := "", 0; ; {
		fresh := b.changes.next()
		moving, before := b.control.DeadLetters()
		state := missing()
		if _, after := b.control.DeadLetters(); state == "" && (moving > 0 || after != before) {
			state = "dead letters are on their way"
		}
		if state == "" {
			if there++; there == 2 {
				return
			}
		} else {
			there = 0
		}
		if state != last {
			last, pause = state, firstPause
		}
		due, waits := b.control.NextDue()
		if time.Since(since) > b.timeout {
			b.t.Fatalf("rehoptest: waited %v for %s: %s. The broker has:\n%s%s", b.timeout, what, state, b, b.advice(due, waits))
		}
		pause = min(pause, b.longestPause(due, waits))
		timer := time.NewTimer(pause)
		select {
		case <-fresh:
			pause = firstPause
		case <-timer.C:
			pause *= 2
		}
		timer.Stop()
		if b.virtual && waits {
			since = time.Now()
		}
	}
}

func (b *Broker) longestPause(due time.Duration, waits bool) time.Duration {
	switch {
	case !b.virtual:
		return longPause
	case waits:
		return max(due, firstPause)
	}
	return longVirtualPause
}

// advice is for a test that would have to wait for long.
func (b *Broker) advice(due time.Duration, waits bool) string {
	if b.virtual || !waits {
		return ""
	}
	return fmt.Sprintf("The next message that waits is due in %v; inside synctest.Test no real time passes meanwhile.", due)
}
