package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Item is one message of a batch.
type Item struct {
	Exchange, Key string
	Message       *Publishing
}

// PublishBatch sends many messages without waiting for one before the next, and returns an outcome
// for each. Those that are sent again are sent together, too.
func (p *Publisher) PublishBatch(ctx context.Context, items []Item, resend bool) []error {
	outcomes := make([]error, len(items))
	p.PublishEach(ctx, items, resend, plainly, func(i int, err error) { outcomes[i] = err })
	return outcomes
}

// Sending is a batch that is being sent.
type Sending struct {
	sent     chan struct{}
	done     chan struct{}
	outcomes []error
}

// StartBatch is PublishBatch for a caller that has the next batch ready: messages that are started after
// Sent come after this batch in their queues, unless something had to be sent again. The caller waits for
// the outcomes.
func (p *Publisher) StartBatch(ctx context.Context, items []Item, resend bool) *Sending {
	s := &Sending{sent: make(chan struct{}), done: make(chan struct{}), outcomes: make([]error, len(items))}
	go func() {
		defer close(s.done)
		p.publishEach(ctx, items, resend, sync.OnceFunc(func() { close(s.sent) }), plainly, func(i int, err error) { s.outcomes[i] = err })
	}()
	return s
}

// Sent waits until every message was sent once, or has an outcome.
func (s *Sending) Sent() { <-s.sent }

// Outcomes waits for the outcomes.
func (s *Sending) Outcomes() []error {
	<-s.done
	return s.outcomes
}

// PublishEach is PublishBatch for a caller that does not wait for the slowest: settled is called once for
// each item as soon as its outcome is certain, from several goroutines, and before PublishEach returns.
// The item is not used after that. On goroutines other than the caller's, around runs what calls settled.
func (p *Publisher) PublishEach(ctx context.Context, items []Item, resend bool, around func(calls func()), settled func(i int, err error)) {
	p.publishEach(ctx, items, resend, func() {}, around, settled)
}

// plainly runs calls with nothing around them.
func plainly(calls func()) { calls() }

func (p *Publisher) publishEach(ctx context.Context, items []Item, resend bool, sent func(), around func(calls func()), settled func(i int, err error)) {
	defer sent()
	courses := make([]resending, len(items))
	left := make([]int, len(items))
	for i := range items {
		left[i], courses[i].resend = i, resend
	}
	for {
		var mu sync.Mutex
		again := make(map[int]error)
		p.sendOnce(ctx, items, left, sent, around, func(i int, err error) {
			ended := err == nil || courses[i].isFinal(err)
			if ended || ctx.Err() != nil {
				settled(i, doubtful(courses[i].doubt, err))
				return
			}
			mu.Lock()
			again[i] = err
			mu.Unlock()
		})
		left = slices.DeleteFunc(left, func(i int) bool { return again[i] == nil })
		if len(left) == 0 {
			return
		}
		if Pause(ctx, resendPause) != nil {
			for _, i := range left {
				settled(i, again[i])
			}
			return
		}
	}
}

// sendOnce sends some of the items once, and reports their outcomes. Those for a destination that keeps
// refusing do not delay others: they are sent when the others have their outcomes, after one pause for
// all of them.
func (p *Publisher) sendOnce(ctx context.Context, items []Item, some []int, sent func(), around func(calls func()), settled func(i int, err error)) {
	w := &pipeline{publisher: p, ctx: ctx, sent: sent, around: around, settled: settled}
	atOnce, later, pause := p.throttle.split(items, some)
	w.sendAll(items, atOnce, len(later) == 0)
	if len(later) == 0 {
		return
	}
	if err := pauseThrottled(ctx, pause); err != nil {
		for _, i := range later {
			settled(i, err)
		}
		return
	}
	w.sendAll(items, later, true)
}

// sendAll sends some of the items, and waits for the outcomes. last: no others follow.
func (w *pipeline) sendAll(items []Item, some []int, last bool) {
	var duplicates []int
	for _, i := range some {
		if w.send(items[i], i) {
			duplicates = append(duplicates, i)
		}
	}
	if last {
		w.sent()
	}
	w.end()
	// Another message with the same id was unconfirmed, perhaps one of these items.
	for _, i := range duplicates {
		if w.send(items[i], i) {
			w.settled(i, fmt.Errorf("%w: another message with the id %q is unconfirmed", ErrUnknown, items[i].Message.MessageId))
		}
		w.end()
	}
}

// pipeline sends the messages of a batch, and has the unconfirmed ones in the order of sending.
type pipeline struct {
	publisher   *Publisher
	ctx         context.Context
	sent        func()             // called when all were sent, perhaps again
	around      func(calls func()) // on goroutines other than the caller's
	settled     func(i int, err error)
	unconfirmed []sentItem
}

type sentItem struct {
	item   int
	ticket Ticket
}

// send sends an item. It makes room for it by waiting for earlier outcomes. duplicate: another message
// with its id is unconfirmed, and it was not sent.
func (w *pipeline) send(item Item, i int) (duplicate bool) {
	t, err := w.publisher.send(w.ctx, item.Exchange, item.Key, item.Message, atOnce)
	for errors.Is(err, errNoPlace) && w.advance() {
		t, err = w.publisher.send(w.ctx, item.Exchange, item.Key, item.Message, atOnce)
	}
	if errors.Is(err, errNoPlace) {
		t, err = w.publisher.send(w.ctx, item.Exchange, item.Key, item.Message, whenThereIsRoom)
	}
	switch {
	case errors.Is(err, errDuplicateID):
		return true
	case err != nil:
		w.settled(i, err)
	default:
		w.unconfirmed = append(w.unconfirmed, sentItem{i, t})
	}
	return false
}

// overtake is how long the outcome of one message may delay the reports of others.
const overtake = 20 * time.Millisecond

// advance reports what has been answered, or waits a little for an answer. False: nothing is unconfirmed.
func (w *pipeline) advance() bool {
	if len(w.unconfirmed) == 0 {
		return false
	}
	before := len(w.unconfirmed)
	if w.answered(); len(w.unconfirmed) < before {
		return true
	}
	w.await(w.unconfirmed[0].ticket)
	w.answered()
	if w.ctx.Err() != nil {
		w.end()
	}
	return true
}

// await waits for an answer, but not for long.
func (w *pipeline) await(t Ticket) (answered bool) {
	timer := time.NewTimer(overtake)
	defer timer.Stop()
	select {
	case <-t.confirm.Done():
		return true
	case <-w.ctx.Done():
	case <-timer.C:
	}
	return false
}

// answered reports the outcomes of messages that the broker has confirmed or refused.
func (w *pipeline) answered() {
	w.unconfirmed = slices.DeleteFunc(w.unconfirmed, func(f sentItem) bool {
		select {
		case <-f.ticket.confirm.Done():
			w.settled(f.item, w.publisher.Outcome(w.ctx, f.ticket))
			return true
		default:
			return false
		}
	})
}

// end waits for all outcomes: in the order of sending, until one of them takes long.
func (w *pipeline) end() {
	for len(w.unconfirmed) > 0 && w.await(w.unconfirmed[0].ticket) {
		first := w.unconfirmed[0]
		w.unconfirmed = w.unconfirmed[1:]
		w.settled(first.item, w.publisher.Outcome(w.ctx, first.ticket))
	}
	var slow sync.WaitGroup
	for _, f := range w.unconfirmed {
		slow.Go(func() {
			err := w.publisher.Outcome(w.ctx, f.ticket)
			w.around(func() { w.settled(f.item, err) })
		})
	}
	slow.Wait()
	w.unconfirmed = nil
}
