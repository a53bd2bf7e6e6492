package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// MoveOptions are what Move moves, and how.
type MoveOptions struct {
	// Queues are the queues to move, each with its failed queue, its held queues and its messages that wait for their next attempt.
	// A * at the end of a name matches any rest. Messages that were delayed to an exchange belong to no queue, and stay. Default: all.
	Queues []string
	// Except are queues that stay, with the same companions. Default: none.
	Except []string
	// Plan is what the target has instead of what the source has under the same names, for example the plan of another layout
	// (see rehop.Topology). Default: the target gets what the source has.
	Plan topology.Plan
	// QueueType is the type that classic queues of the source have on the target. With either type, policies lose their settings of
	// classic mirrored queues, which RabbitMQ 4 refuses. Default: queues keep their type, and such policies are refused.
	QueueType layout.QueueType
	// Durable declares transient queues and exchanges of the source as durable on the target. Default: they are refused.
	Durable bool
	// Users moves the users that have permissions in the virtual host, with their passwords' hashes and these permissions. Users that
	// the target has stay unchanged. Both logins need the tag administrator. Default: users are not moved.
	Users bool
	// Timeout is how long a broker may be away, or the target may refuse messages, until Move returns the error. It is also how long
	// consumers of the source may keep messages unacked at the end. Default: 1 minute.
	Timeout time.Duration
	// Settle is how long nothing may have arrived in the queues of the source before they count as empty. In any case they do so only
	// when the broker's statistics, which must be newer than that, show no unacked messages; RabbitMQ takes up to about 20 s for that.
	// Default: 12 s; nothing with the embedded broker.
	Settle time.Duration
	// Progress is called after each batch. Default: none.
	Progress func(MoveProgress)
}

// MoveProgress is how far a move is.
type MoveProgress struct {
	Queue string // whose messages are moved now
	Moved int    // messages that the target has confirmed
	Total int    // messages that the source had at the start, as far as it knew
	// Waiting is why nothing is moved at the moment. Empty: messages are moved.
	Waiting string
}

// ErrLeft: messages are still on the source. The balance shows where.
var ErrLeft = errors.New("messages are left on the source")

const (
	moveTimeout = time.Minute
	moveSettle  = 12 * time.Second
	// movePause is the pause before a queue is tried again.
	movePause = 500 * time.Millisecond
	// moveLock is what the lease of a move is called: one at a time moves from a virtual host.
	moveLock = "rehop.move"
)

// Move moves the queues of this virtual host to that of another Admin: to another broker, or to another virtual host. First it
// declares on the target what the source has and the target lacks; objects that exist there stay unchanged. Then it moves the
// messages. They keep their routing keys, properties and headers. The exchange to which a message was published is in its headers,
// where subscriptions of rehop find it. A message that waits in one of rehop's delay queues waits on the target for the rest of its
// delay, rounded up, and returns to its queue there.
//
// The target confirms each message before it is removed from the source. So Move can be killed at any moment, and called again: up
// to 256 messages are then on both brokers, with the same message id. Consumers may run on both sides, except for queues that are
// handled in order by key (rehop.Subscriber.OrderBy), or have a single active consumer. Move continues until the queues of the
// source are empty: stop its publishers, or have them publish to the target. The queues themselves stay on the source.
//
// If the target would refuse a definition, nothing is declared or moved, and the error is an ErrRefused that names it. If it refuses
// a message, Move ends with an error after Timeout, and the message stays on the source. The balance is valid in any case. An
// ErrLeft means that consumers of the source still had messages at the end.
//
// Both need the management API.
func (a *Admin) Move(ctx context.Context, to *Admin, o MoveOptions) (Balance, error) {
	m, err := a.newMove(ctx, to, o)
	if err != nil {
		return Balance{}, err
	}
	l, err := a.leaseOf(ctx, moveLock)
	if err != nil {
		return Balance{}, fmt.Errorf("move: %w", err)
	}
	defer l.end()
	plan, err := m.plan(ctx)
	if err == nil {
		err = plan.refusal()
	}
	if err != nil {
		return Balance{}, fmt.Errorf("move: nothing was declared or moved: %w", err)
	}
	if err := m.define(ctx); err != nil {
		return Balance{}, fmt.Errorf("move: no message was moved: %w", err)
	}
	err = m.moveUntilEmpty(ctx)
	balance, fault := m.balance(ctx, err != nil)
	switch {
	case err != nil:
		err = fmt.Errorf("move: %w", err)
	case fault != nil:
		err = fmt.Errorf("move: all messages were moved, but the balance is not known: %w", fault)
	case balance.Left() > 0:
		err = fmt.Errorf("move: %w: %d; consumers may have them: stop these, and run the move again", ErrLeft, balance.Left())
	}
	return balance, err
}

// PlanMove is what Move would do. It changes nothing, except that it tries queues and policies on the target under other names
// (rehop.try.ID), which it deletes. On both brokers it declares such a queue for a moment, to find out whether they are the same.
func (a *Admin) PlanMove(ctx context.Context, to *Admin, o MoveOptions) (MovePlan, error) {
	m, err := a.newMove(ctx, to, o)
	if err != nil {
		return MovePlan{}, err
	}
	plan, err := m.plan(ctx)
	if err != nil {
		return plan, fmt.Errorf("plan the move: %w", err)
	}
	return plan, nil
}

// move is a call of Move or PlanMove.
type move struct {
	from, to *Admin
	options  MoveOptions
	began    time.Time
	source   topology.Live
	target   topology.Live
	owners   map[string]string         // of failed, held and landing queues: the queue that they belong to
	consumed map[string]layouts.Layout // queues that rehop consumes
	queues   []movedQueue              // in the order in which they are moved
	defined  map[string]bool           // queues of the source that were there when the definitions were moved
	delays   *delays.Delays            // of the target
	returns  returnBindings            // by which waiting messages come back
	rows     map[string]*BalanceRow
	progress MoveProgress
}

func (a *Admin) newMove(ctx context.Context, to *Admin, o MoveOptions) (*move, error) {
	switch {
	case o.Timeout < 0 || o.Settle < 0:
		return nil, errors.New("move: the timeout and the time to settle must not be negative")
	case o.QueueType != "" && string(o.QueueType) != quorum && string(o.QueueType) != classic:
		return nil, fmt.Errorf("move: the type of queues is %q; it must be %s or %s", o.QueueType, quorum, classic)
	}
	m := &move{from: a, to: to, options: o, began: time.Now(), rows: make(map[string]*BalanceRow), defined: make(map[string]bool)}
	m.options.Timeout = cmp.Or(o.Timeout, moveTimeout)
	if err := m.checkPlaces(ctx); err != nil {
		return nil, fmt.Errorf("move: %w", err)
	}
	if err := m.readBothBrokers(ctx); err != nil {
		return nil, fmt.Errorf("move: %w", err)
	}
	if m.options.Settle == 0 && m.source.Product != embeddedProduct {
		m.options.Settle = moveSettle
	}
	return m, nil
}

// readBothBrokers reads what both brokers have.
func (m *move) readBothBrokers(ctx context.Context) error {
	var err error
	if m.source, err = m.from.Live(ctx); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if m.target, err = m.to.Live(ctx); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	m.findOwners()
	m.chooseQueues()
	m.returns = returnBindings{source: returnsOf(m.source.Bindings), target: returnsOf(m.target.Bindings), owners: m.owners}
	return nil
}

// moveUntilEmpty moves messages until the source has none, or its consumers keep the last ones. If a queue has a message that the target
// does not take, the other queues are moved anyway.
func (m *move) moveUntilEmpty(ctx context.Context) error {
	for _, q := range m.queues {
		m.progress.Total += q.Messages()
	}
	failed := make(map[string]error) // by the queue that fails, or that it belongs to
	for quiet := false; ; {
		moved := 0
		for _, q := range m.queues {
			owner := cmp.Or(m.owners[q.Name], q.Name)
			if failed[owner] != nil {
				continue // what belongs together keeps its order
			}
			n, err := m.moveQueue(ctx, q)
			moved += n
			if err != nil && (ctx.Err() != nil || !isOfMessage(err) && !inExclusiveUse(err)) {
				return err
			}
			failed[owner] = err
		}
		if err := m.refresh(ctx); err != nil {
			return err
		}
		if moved == 0 && quiet {
			break
		}
		if moved > 0 {
			quiet = false
			continue
		}
		end, err := m.waitUntilQuiet(ctx, failed)
		if err != nil {
			return errors.Join(append(slices.Collect(maps.Values(failed)), err)...)
		}
		if end != messagesCame {
			// What consumers had meanwhile may wait for its next attempt now, in a queue that did not exist before.
			quiet = true
			if err := m.refresh(ctx); err != nil {
				return err
			}
		}
	}
	return errors.Join(slices.Collect(maps.Values(failed))...)
}

// refresh finds queues that consumers of the source have declared since, as steps for other delays, and defines them.
func (m *move) refresh(ctx context.Context) error {
	return m.patiently(ctx, func(ctx context.Context) error {
		if err := m.readBothBrokers(ctx); err != nil {
			return err
		}
		for _, q := range m.queues {
			if !m.defined[q.Name] {
				return m.define(ctx)
			}
		}
		return nil
	})
}

// quietness is why waitUntilQuiet has ended.
type quietness int

const (
	messagesCame  quietness = iota // there are messages to move
	isEmpty                        // the source had none for a while
	consumersKeep                  // consumers of the source did not settle theirs in time; the balance reports them
)

// waitUntilQuiet waits until messages come, the source has had none for a while, or its consumers do not settle theirs.
func (m *move) waitUntilQuiet(ctx context.Context, failed map[string]error) (quietness, error) {
	began := time.Now()
	watched := make(map[string]*statistics)
	for quiet := began; ; {
		var left leftOver
		if err := m.patiently(ctx, func(ctx context.Context) (err error) {
			left, err = m.countLeft(ctx, failed, watched)
			return err
		}); err != nil {
			return messagesCame, err
		}
		switch {
		case left.ready > 0:
			return messagesCame, nil
		case left.away > 0 && time.Since(began) >= m.options.Timeout:
			return consumersKeep, nil
		case left.away > 0:
			m.await(fmt.Sprintf("%d messages that consumers of the source have", left.away))
			quiet = time.Now()
			clear(watched) // these may come back, and be taken again
		case time.Since(quiet) < m.options.Settle:
		case left.unsure == "":
			return isEmpty, nil
		case left.silent != "":
			return messagesCame, fmt.Errorf("%w of queue %q for %v: consumers of the source may have messages of it", errNoStatistics, left.silent, statisticsLimit)
		default:
			m.await(fmt.Sprintf("the source to show whether consumers have messages of queue %q", left.unsure))
		}
		if err := rabbit.Pause(ctx, pollPause); err != nil {
			return messagesCame, err
		}
	}
}

// errNoStatistics: nobody knows whether messages are left.
var errNoStatistics = errors.New("the management API shows no new figures")

// leftOver is what the source still has.
type leftOver struct {
	ready  int
	away   int    // unacked or delayed, as far as the broker shows
	unsure string // a queue of which the broker has not shown yet whether some are away
	silent string // one of which it shows no new figures at all
}

// countLeft counts the messages of the source that are to be moved. Queues that have failed are only entered in the balance.
func (m *move) countLeft(ctx context.Context, failed map[string]error, watched map[string]*statistics) (left leftOver, err error) {
	for _, q := range m.queues {
		if q.shared {
			continue // others than those that are moved may be there
		}
		depth, exists, err := existing(m.from.read.InspectClosely(ctx, q.Name))
		if err != nil {
			return left, err
		}
		if !exists {
			continue
		}
		if watched[q.Name] == nil {
			watched[q.Name] = &statistics{queue: q.LiveQueue}
		}
		away, sure, err := watched[q.Name].away(ctx, m.from.management, m.source.Product == embeddedProduct)
		if err != nil {
			return left, err
		}
		m.row(q.Name).Left = depth.Messages + away
		if failed[cmp.Or(m.owners[q.Name], q.Name)] != nil {
			continue
		}
		left.ready, left.away = left.ready+depth.Messages, left.away+away
		if !sure {
			left.unsure = q.Name
			if watched[q.Name].areMissing() {
				left.silent = q.Name
			}
		}
	}
	return left, nil
}

// await reports why nothing is moved.
func (m *move) await(what string) {
	m.progress.Waiting = what
	m.report()
}

func (m *move) report() {
	if m.options.Progress != nil {
		m.options.Progress(m.progress)
	}
}

// patiently repeats something while a broker is away, until the timeout.
func (m *move) patiently(ctx context.Context, do func(context.Context) error) error {
	for until := time.Now().Add(m.options.Timeout); ; {
		limited, cancel := context.WithDeadline(ctx, until)
		err := do(limited)
		cancel()
		if err == nil || ctx.Err() != nil || isFinal(err) || !time.Now().Before(until) {
			return err
		}
		m.await(fmt.Sprintf("a broker: %v", err))
		if err := rabbit.Pause(ctx, movePause); err != nil {
			return err
		}
	}
}

// isFinal reports whether trying again does not help.
func isFinal(err error) bool {
	return errors.Is(err, rabbit.ErrUnroutable) || errors.Is(err, rabbit.ErrInvalid) || errors.Is(err, rabbit.ErrTooLarge) || errors.Is(err, rabbit.ErrClosed) ||
		errors.Is(err, ErrInOrder) || errors.Is(err, ErrRefused) || errors.Is(err, ErrManagementLogin) || declareCode(err) == accessRefused || declareCode(err) == preconditionFailed
}

// isOfMessage reports whether the target does not take a message, whatever becomes of others.
func isOfMessage(err error) bool {
	return errors.Is(err, rabbit.ErrTooLarge) || errors.Is(err, rabbit.ErrInvalid) || errors.Is(err, rabbit.ErrUnroutable)
}

// inExclusiveUse reports whether a consumer has a queue of the source exclusively.
func inExclusiveUse(err error) bool {
	d, ok := errors.AsType[*rabbit.DeclareError](err)
	return ok && d.InExclusiveUse()
}
