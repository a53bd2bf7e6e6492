package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// The shop's queues and its exchange.
const (
	Exchange      = "order"
	Summary       = "order-summary-queue"
	Notification  = "order-notification-queue"
	keyCreated    = "order.created"
	keyUpdated    = "order.updated"
	headerOrder   = "order-number"
	headerEvent   = "event-id" // stays the same when a message is edited, which gives it another id
	everythingKey = "order.#"
)

// place is the state of a copy of a message.
type place int

const (
	queued  place = iota // in its queue, or on its way there
	working              // being handled
	waiting              // for its next attempt
	failed               // in the failed queue
	handled
)

// ticket identifies a copy of a message, by the id of its event. Each queue has its own.
type ticket struct{ queue, id string }

// eventOf is the event of a message.
func eventOf(headers map[string]any) string {
	id, _ := headers[headerEvent].(string)
	return id
}

type entry struct {
	place     place
	published bool
	step      int // of the schedule, from 0
	done      int // how often it was handled
}

type event struct {
	at   time.Duration
	kind place
	text string
}

// books account for every copy by the id of its event. Their hooks receive the events of the client.
type books struct {
	began time.Time

	mu       sync.Mutex
	entries  map[ticket]*entry
	messages int
	retries  int
	replayed int
	removed  int     // failed messages that the user has discarded or sent elsewhere
	events   []event // the last ones
	noted    int     // how many events there were in all
}

const eventsKept = 1024

func newBooks() *books { return &books{began: time.Now(), entries: make(map[ticket]*entry)} }

// expect notes a message that is about to be published, and the queues that must get it.
func (b *books) expect(id string, queues ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages++
	for _, queue := range queues {
		b.entries[ticket{queue, id}] = &entry{published: true}
	}
}

func (b *books) entry(d *rehop.Delivery) *entry {
	t := ticket{d.Queue, eventOf(d.Headers)}
	e, known := b.entries[t]
	if !known { // it was never published, and the sums will show that
		e = &entry{}
		b.entries[t] = e
	}
	return e
}

func (b *books) hooks() rehop.Hooks {
	return rehop.Hooks{OnHandleStart: b.OnHandleStart, OnResult: b.OnResult}
}

// OnHandleStart notes that a copy is being handled.
func (b *books) OnHandleStart(ctx context.Context, d *rehop.Delivery) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(d)
	if e.place == failed {
		b.replayed++
	}
	e.place = working
	return ctx
}

// OnResult notes the outcome of a copy.
func (b *books) OnResult(_ context.Context, d *rehop.Delivery, r rehop.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(d)
	switch r.Outcome {
	case rehop.OutcomeDone:
		e.place = handled
		e.done++
		switch {
		case d.Replays > 0:
			b.note(handled, "order %v: replayed, the customer is notified", d.Headers[headerOrder])
		case d.Attempt > 1:
			b.note(handled, "order %v: the customer is notified at attempt %d", d.Headers[headerOrder], d.Attempt)
		}
	case rehop.OutcomeRetry:
		e.place, e.step = waiting, d.Attempt-1
		b.retries++
		b.note(waiting, "order %v: attempt %d: %v; waits for its retry", d.Headers[headerOrder], d.Attempt, r.Err)
	case rehop.OutcomeFailed:
		e.place = failed
		b.note(failed, "order %v: attempt %d: %v; to the failed queue", d.Headers[headerOrder], d.Attempt, r.Err)
	default: // it returns to its queue
		e.place = queued
	}
}

// remove notes how many failed messages the user has removed in all.
func (b *books) remove(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = n
}

// log adds a line that is not about a message.
func (b *books) log(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(queued, format, args...)
}

func (b *books) note(kind place, format string, args ...any) {
	b.noted++
	b.events = append(b.events, event{at: time.Since(b.began), kind: kind, text: fmt.Sprintf(format, args...)})
	if len(b.events) > eventsKept {
		b.events = b.events[1:]
	}
}

// count is the number of copies of a queue by state.
type count struct {
	copies, queued, working, failed, handled, removed int
	waiting                                           []int // by step
}

func (c count) waits() (n int) {
	for _, w := range c.waiting {
		n += w
	}
	return n
}

// view is the books at one moment.
type view struct {
	at                          time.Duration
	messages, retries, replayed int
	queues                      map[string]count
	events                      []event
}

// view returns the books with the last events.
func (b *books) view(steps, events int) view {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := view{at: time.Since(b.began), messages: b.messages, retries: b.retries, replayed: b.replayed, queues: make(map[string]count),
		events: slices.Clone(b.events[max(0, len(b.events)-events):])}
	for _, queue := range []string{Summary, Notification} {
		v.queues[queue] = count{waiting: make([]int, steps)}
	}
	for t, e := range b.entries {
		c := v.queues[t.queue]
		c.copies++
		switch e.place {
		case queued:
			c.queued++
		case working:
			c.working++
		case waiting:
			c.waiting[min(e.step, steps-1)]++
		case failed:
			c.failed++
		case handled:
			c.handled++
		}
		v.queues[t.queue] = c
	}
	c := v.queues[Notification] // the only queue whose messages fail
	c.removed = min(b.removed, c.failed)
	c.failed -= c.removed
	v.queues[Notification] = c
	return v
}

// since returns the events after the first seen ones, as far as they are kept, and how many there are in all.
func (b *books) since(seen int) ([]event, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := min(b.noted-seen, len(b.events))
	return slices.Clone(b.events[len(b.events)-fresh:]), b.noted
}

// settled reports whether every copy is handled or in the failed queue.
func (b *books) settled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.place < failed {
			return false
		}
	}
	return true
}
