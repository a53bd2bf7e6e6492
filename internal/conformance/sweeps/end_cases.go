package sweeps

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

func endCases() []Case {
	return []Case{
		{"end/Empty", empty},
		{"end/Arrivals", arrivals},
		{"end/OthersTake", othersTake},
		{"end/Canceled", canceled},
		{"end/FailsAgainWithPriority", failsAgainWithPriority},
	}
}

func empty(b *Bench) {
	b.declare(failed, failedArgs(layout.Quorum))
	a := b.admin()
	if found, err := a.Failed(b.context(), queue, 10, admin.Filter{}); err != nil || len(found) != 0 {
		b.t.Fatalf("list of an empty queue: got %v and %v, want nothing", found, err)
	}
	if p, err := a.Replay(b.context(), queue, admin.Options{}); err != nil || p != (admin.Progress{}) {
		b.t.Fatalf("replay of an empty queue: got %+v and %v, want nothing", p, err)
	}
}

// atEach is a writer that does something for each line.
type atEach func()

func (f atEach) Write(p []byte) (int, error) {
	for _, c := range p {
		if c == '\n' {
			f()
		}
	}
	return len(p), nil
}

// arrivals: an export ends, although a message comes for each that it has written.
func arrivals(b *Bench) {
	const n = 300
	b.declare(failed, failedArgs(layout.Quorum))
	b.fill(failed, n)
	next := n
	count, err := b.admin().Export(b.context(), queue, atEach(func() {
		b.publish(failed, amqp091.Publishing{MessageId: strconv.Itoa(next)}, true)
		next++
	}), admin.Filter{})
	b.must(err)
	if count != n {
		b.t.Fatalf("got %d messages, want the %d that were there", count, n)
	}
	b.wantDepth(failed, 2*n)
	b.wantIDs("what is in the queue", b.takeAll(failed), 2*n, nil)
}

// othersTake: a sweep ends, although another consumer has got some of the messages that were there.
func othersTake(b *Bench) {
	const n, others = 200, 50
	b.declare(failed, failedArgs(layout.Quorum))
	b.fill(failed, n)
	b.must(b.ch.Qos(others, 0, false))
	deliveries, err := b.ch.Consume(failed, "other", false, false, false, false, nil)
	b.must(err)
	for range others {
		<-deliveries
	}
	found, err := b.admin().Failed(b.context(), queue, n, admin.Filter{})
	b.must(err)
	b.wantIDs("list", idsOf(found), n, func(i int) bool { return i >= others })
	b.must(b.ch.Close())
}

// canceled: wherever a sweep is canceled, all messages are there when it returns, and can be read at once.
func canceled(b *Bench) {
	const n = 340 // three windows, of 32, 256 and the others
	b.declare(failed, failedArgs(layout.Quorum))
	b.fill(failed, n)
	a := b.admin()
	for _, at := range []int{0, 1, 31, 32, 33, 64, 287, 288, 289, n} {
		ctx, cancel := context.WithCancel(b.context())
		lines := 0
		if at == 0 {
			cancel()
		}
		_, err := a.Export(ctx, queue, atEach(func() {
			if lines++; lines == at {
				cancel()
			}
		}), admin.Filter{})
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			b.t.Errorf("canceled at %d: got %v, want that it was canceled", at, err)
		}
		if count, err := a.CountFailed(b.context(), queue, admin.Filter{}); err != nil || count.Messages != n {
			b.t.Errorf("after it was canceled at %d: got %d messages and %v, want %d", at, count.Messages, err, n)
		}
	}
	b.wantIDs("what is in the queue", b.takeAll(failed), n, nil)
}

// failsAgainWithPriority: a message that fails again while it is replayed overtakes those that were not replayed yet. It is not replayed again, and
// they are.
func failsAgainWithPriority(b *Bench) {
	const n = 600
	b.declare(failed, amqp091.Table{"x-queue-type": "classic", "x-max-priority": int32(9)}, queue)
	b.fill(failed, n, func(_ int, p *amqp091.Publishing) { p.Priority = 1 })
	deliveries, err := b.ch.Consume(queue, "", true, false, false, false, nil)
	b.must(err)
	var done sync.WaitGroup
	runs := make(map[string]int)
	done.Go(func() {
		for d := range deliveries {
			if runs[d.MessageId]++; len(runs) == n && runs[d.MessageId] == 1 {
				return
			}
			// Only a few, so that the test is quick.
			if i, _ := strconv.Atoi(d.MessageId); i%20 == 0 {
				if _, err := b.ch.PublishWithDeferredConfirm("", failed, true, false, amqp091.Publishing{MessageId: d.MessageId, Headers: d.Headers, Priority: 9}); err != nil {
					return
				}
			}
		}
	})
	p, err := b.admin().Replay(b.context(), queue, admin.Options{})
	b.must(err)
	done.Wait()
	if p.Done != n {
		b.t.Fatalf("got %+v, want %d done", p, n)
	}
	for id, times := range runs {
		if times != 1 {
			b.t.Errorf("message %s was replayed %d times, want once", id, times)
		}
	}
}
