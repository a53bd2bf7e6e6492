package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// missingTimeout is how long a message that is missing is waited for while nothing else moves. Brokers
	// may hold back a dead-lettered message for long after a fault: RabbitMQ for up to three minutes
	// by default.
	missingTimeout = 4 * time.Minute
	// quiet is how long nothing must happen until the queues count as settled; longer than any delay.
	quiet = 1500 * time.Millisecond
	// pollEvery is the pause between looks at what no event announces.
	pollEvery = 100 * time.Millisecond
)

// Drain stops publishing, waits until everything confirmed has been handled or is in a failed
// queue, closes the clients, and records what is in the queues. Its error is what went wrong
// while looking; the auditor finds what is missing.
func (w *Workload) Drain(ctx context.Context) error {
	w.stopPublishing()
	rested := w.settled(ctx)
	if rested == nil {
		rested = w.rest(ctx)
	}
	closed := w.Close(ctx)
	if err := w.readAll(ctx); err != nil {
		return errors.Join(closed, err)
	}
	if rested == nil && closed == nil {
		w.History.Record(Event{Kind: Drained})
		return nil
	}
	return errors.Join(rested, closed)
}

// settled waits until every attempt to publish has an outcome, and everything confirmed has been
// handled in each of its queues or been parked. It gives up when nothing has moved for long.
func (w *Workload) settled(ctx context.Context) error {
	open := newLedger(w.Script.Queues, w.Script.routed)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	seen, moved, asked := 0, time.Now(), false
	for {
		events := w.History.Events()
		for _, e := range events[seen:] {
			if open.take(e) {
				moved, asked = time.Now(), false
			}
		}
		seen = len(events)
		if open.settled() {
			return nil
		}
		if time.Since(moved) > stuckAfter && !asked && w.Unstick != nil {
			if asked = true; w.Unstick(ctx) {
				asked, moved = false, time.Now()
			}
		}
		if time.Since(moved) > missingTimeout {
			return fmt.Errorf("nothing has moved for %v, and %s", missingTimeout, open)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", open, ctx.Err())
		}
	}
}

// ledger knows what is still to happen.
type ledger struct {
	queues   []string
	routed   func(id string) bool
	underway map[string]bool    // attempts without an outcome
	missing  map[place]struct{} // confirmed, not handled
	done     map[place]struct{} // handled
	// A consumer that is killed may have moved a message to the failed queue without reporting it.
	killed map[string]bool    // queues of such consumers
	spent  map[place]struct{} // messages whose last attempt failed
}

func newLedger(queues []string, routed func(id string) bool) *ledger {
	return &ledger{queues: queues, routed: routed, underway: make(map[string]bool), missing: make(map[place]struct{}), done: make(map[place]struct{}),
		killed: make(map[string]bool), spent: make(map[place]struct{})}
}

// Unsettled is how many confirmed messages have neither been handled nor been parked, counted once
// for each of the queues that they belong to.
func Unsettled(events []Event, queues []string) int {
	l := newLedger(queues, func(string) bool { return true })
	for _, e := range events {
		l.take(e)
	}
	return len(l.missing)
}

// take reports whether the event brings the end nearer.
func (l *ledger) take(e Event) bool {
	switch e.Kind {
	case Attempt:
		l.underway[e.ID] = e.Queue == ""
	case Confirmed:
		bound := l.underway[e.ID] && l.routed(e.ID)
		delete(l.underway, e.ID)
		for _, q := range l.queues {
			p := place{q, e.ID}
			if _, done := l.done[p]; bound && !done {
				l.missing[p] = struct{}{}
			}
		}
	case Unroutable, NotSent, Unclassified, Unknown, Refused:
		delete(l.underway, e.ID)
	case Handled, Parked:
		p := place{e.Queue, e.ID}
		l.done[p] = struct{}{}
		delete(l.missing, p)
	case Failed:
		if e.Delay == 0 {
			l.spent[place{e.Queue, e.ID}] = struct{}{}
		}
		return false
	case Start:
		delete(l.spent, place{e.Queue, e.ID})
		return false
	case Killed:
		l.killed[e.Queue] = true
		return false
	default: // a message that is tried again and again comes no nearer to its end
		return false
	}
	return true
}

// settled does not wait for the report of a consumer that was killed. The auditor finds out whether the message is in the failed queue.
func (l *ledger) settled() bool {
	for p := range l.missing {
		if _, spent := l.spent[p]; !spent || !l.killed[p.queue] {
			return false
		}
	}
	return len(l.underway) == 0
}

func (l *ledger) String() string {
	s := fmt.Sprintf("%d publishes have no outcome and %d confirmed messages are not handled", len(l.underway), len(l.missing))
	for p := range l.missing {
		return fmt.Sprintf("%s, such as %s in %s", s, p.id, p.queue)
	}
	return s
}

// rest waits until the queues are empty and nothing happens any more: second copies may still be on
// their way after all messages have been handled once.
func (w *Workload) rest(ctx context.Context) error {
	conn, err := w.Dial(ctx)
	if err != nil {
		return fmt.Errorf("look at queues: %w", err)
	}
	defer conn.Close()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	began := time.Now()
	for {
		before := w.History.Len()
		if err := w.History.Quiet(ctx, quiet); err != nil {
			return err
		}
		full, err := w.nonEmpty(conn)
		if err != nil {
			return err
		}
		if full == "" && w.History.Len() == before {
			return nil
		}
		if time.Since(began) > missingTimeout+quiet {
			return fmt.Errorf("queue %q is not empty, or something still happens, after %v", full, time.Since(began))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nonEmpty is a queue that should be empty and is not.
func (w *Workload) nonEmpty(conn *amqp.Connection) (string, error) {
	for _, q := range w.searched {
		if q.place != InQueue && q.place != InWait {
			continue
		}
		ch, err := conn.Channel()
		if err != nil {
			return "", fmt.Errorf("look at queues: %w", err)
		}
		state, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
		if missing(err) {
			continue
		}
		_ = ch.Close()
		if err != nil {
			return "", fmt.Errorf("look at queue %q: %w", q.name, err)
		}
		if state.Messages > 0 {
			return q.name, nil
		}
	}
	return "", nil
}

func missing(err error) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Code == amqp.NotFound
}
