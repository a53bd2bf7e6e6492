package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// movedQueue is a queue of the source whose messages are moved.
type movedQueue struct {
	topology.LiveQueue
	waits        bool // it is one of rehop's delay queues
	shared       bool // it also has messages that stay
	singleActive bool // it has a single active consumer
	ordered      bool // its messages are handled in order by key
}

// ErrInOrder: the messages of a queue could lose their order, or would not be delivered, because it has consumers.
var ErrInOrder = errors.New("the queue is handled in order")

// moveQueue moves the messages of a queue that it has now, and returns how many the target has confirmed. If a broker is away, it tries again.
func (m *move) moveQueue(ctx context.Context, q movedQueue) (n int, err error) {
	row := m.row(q.Name)
	for last := time.Now(); ; {
		before := row.Arrived + row.Due
		err := m.explained(m.pass(ctx, q))
		if now := row.Arrived + row.Due; now > before {
			n, last = n+now-before, time.Now()
		}
		switch {
		case err == nil:
			return n, nil
		case ctx.Err() != nil, isFinal(err), time.Since(last) >= m.options.Timeout:
			return n, fmt.Errorf("queue %q: %w; the messages that were not moved are on the source: run the move again for the rest", q.Name, err)
		}
		m.await(fmt.Sprintf("queue %q: %v", q.Name, err))
		if err := rabbit.Pause(ctx, movePause); err != nil {
			return n, err
		}
	}
}

// explained adds to an error that the target is blocked by an alarm.
func (m *move) explained(err error) error {
	state, reason := m.to.write.State()
	if err == nil || state != rabbit.Blocked || errors.Is(err, rabbit.ErrBlocked) {
		return err
	}
	return fmt.Errorf("the target accepts no messages: %w: %v: %w", rabbit.ErrBlocked, reason, err)
}

// pass moves the messages that a queue has now, once.
func (m *move) pass(ctx context.Context, q movedQueue) error {
	limited, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	depth, exists, err := existing(m.from.read.Inspect(limited, q.Name))
	if err != nil || !exists {
		return err
	}
	if depth.Messages == 0 {
		return m.removeCarrier(limited, q)
	}
	if err := m.keepsOrder(limited, q, depth.Consumers); err != nil {
		return err
	}
	t := &taking{sender: m.to.sender, inOrder: q.singleActive, strict: true, limit: m.options.Timeout, books: m.books(q)}
	from := place{layout: layouts.Native{}, source: q.Name, open: !q.waits}
	if q.waits {
		t.move = m.waiting(q)
		if q.shared {
			t.wants = func(f found) bool { return m.wantsWaiting(q.Name, f.delivery) }
		}
	} else {
		t.move = m.carried(q)
		if err := m.to.write.Declare(limited, carrying(q.Name)); err != nil {
			return err
		}
	}
	if err := m.accepts(limited); err != nil {
		return err
	}
	m.progress.Queue, m.progress.Waiting = q.Name, ""
	if _, err := m.from.takeFrom(ctx, from, "", Options{}, t); err != nil {
		return err
	}
	if q.waits {
		return nil
	}
	return m.to.write.DeleteExchange(limited, layouts.CarryExchange(q.Name))
}

// accepts waits until the target confirms messages. Before that, none of the source are taken: while the target accepts none, because of an alarm, they
// would be unacked, and if this process is killed then, again and again, their queues can drop them by their delivery limits.
func (m *move) accepts(ctx context.Context) error {
	// A broker with an alarm blocks a connection after the first message, which it may still confirm.
	for range 2 {
		probe := rabbit.Item{Key: tryPrefix + rabbit.NewID(), Message: &rabbit.Publishing{DeliveryMode: rabbit.Transient}}
		err := errors.Join(m.to.sender.PublishBatch(ctx, []rabbit.Item{probe}, true)...)
		if errors.Is(err, rabbit.ErrBlocked) || errors.Is(err, rabbit.ErrDisconnected) || errors.Is(err, rabbit.ErrClosed) || ctx.Err() != nil {
			return fmt.Errorf("the target does not confirm messages: %w", err)
		}
		// Every other answer is one: that no queue has this name, or that the user may not publish to the default exchange.
	}
	return nil
}

// removeCarrier deletes what a move that was killed has left.
func (m *move) removeCarrier(ctx context.Context, q movedQueue) error {
	name := layouts.CarryExchange(q.Name)
	if _, left := m.target.Exchange(name); !left || q.waits {
		return nil
	}
	return m.to.write.DeleteExchange(ctx, name)
}

// carrying is the exchange through which messages come to a queue of the target, and to no other, whatever their routing key is.
func carrying(queue string) topology.Plan {
	name := layouts.CarryExchange(queue)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: name, Type: "fanout"}},
		Bindings:  []topology.Binding{{Source: name, Destination: queue}},
	}
}

// books keeps the balance of a queue.
func (m *move) books(q movedQueue) func(confirmed, removed int) {
	row := m.row(q.Name)
	return func(confirmed, removed int) {
		row.Moved += removed
		row.Again = max(0, row.Again+confirmed-removed)
		if q.waits {
			row.Due += confirmed
		} else {
			row.Arrived += confirmed
		}
		m.progress.Moved += confirmed
		m.progress.Total = max(m.progress.Total, m.progress.Moved)
		m.report()
	}
}

// keepsOrder returns an error if consumers prevent that the messages of a queue are moved in their order.
//
// A process that handles a queue in order has the content of its held queue in memory. What comes from another broker's held queue
// would look to it like the notes of a process that was replaced, and be dropped.
func (m *move) keepsOrder(ctx context.Context, q movedQueue, consumers int) error {
	if q.singleActive && consumers > 0 {
		return fmt.Errorf("%w by a single active consumer, and nothing is delivered to others: stop the %d consumers of queue %q on the source", ErrInOrder, consumers, q.Name)
	}
	if !q.ordered {
		return nil
	}
	there, _, err := existing(m.to.read.Inspect(ctx, q.Name))
	if err == nil && there.Consumers > 0 {
		err = fmt.Errorf("%w by key, and a process on the target would drop what comes from the source: stop the %d consumers of queue %q on the target until the move has ended", ErrInOrder, there.Consumers, q.Name)
	}
	return err
}

// carried moves a message to the queue of the same name.
func (m *move) carried(q movedQueue) mover {
	exchange := layouts.CarryExchange(q.Name)
	_, consumed := m.consumed[q.Name]
	_, companion := m.owners[q.Name]
	kept := place{source: q.Name}
	return func(_ context.Context, _ place, f found) (rabbit.Item, error) {
		d := f.delivery
		if d.Exchange == exchange { // it was moved before
			d.Exchange, d.RoutingKey = kept.origin(d)
		}
		var p *rabbit.Publishing
		if consumed || !companion && !shared(q.Name) && !layouts.IsWaitQueue(q.Name) {
			p = m.from.copyWithOrigin(d, q.Name, consumed)
		} else {
			p = kept.carried(d)
		}
		return rabbit.Item{Exchange: exchange, Key: f.delivery.RoutingKey, Message: p}, nil
	}
}

// carried is a copy of a message for a queue that keeps messages, on another broker. It records where it came from.
func (p place) carried(d rabbit.Message) *rabbit.Publishing {
	exchange, key := p.origin(d)
	copied := copyOf(d)
	for name, value := range d.Headers {
		if name != "x-delivery-count" && name != "x-acquired-count" {
			copied.Headers[name] = value
		}
	}
	with := maps.Clone(map[string]any(copied.Headers))
	with[envelope.CameBy], with[envelope.CameKey] = exchange, key
	if fits(copied, with) {
		copied.Headers = rabbit.ToTable(with)
	}
	return copied
}

// waiting moves a message to the delay queues of the target, for the rest of its delay.
func (m *move) waiting(q movedQueue) mover {
	row := m.row(q.Name)
	return func(ctx context.Context, _ place, f found) (rabbit.Item, error) {
		d, headers := f.delivery, rabbit.FromTable(f.delivery.Headers)
		now := time.Now()
		w, _ := layouts.WaitingIn(q.Name, headers, now)
		key, err := m.returns.keyOf(w.To, d.RoutingKey, headers)
		if err != nil {
			return rabbit.Item{}, fmt.Errorf("message %s: %w", d.MessageId, err)
		}
		p := copyOf(d)
		p.Expiration = "" // it would cut the delay short
		kept := layouts.Unaddressed(headers)
		delete(kept, "x-delivery-count")
		delete(kept, "x-acquired-count")
		for delay := w.Left; ; {
			address, err := m.addressOf(ctx, delay, w.To, key)
			if err != nil {
				return rabbit.Item{}, fmt.Errorf("message %s: %w", d.MessageId, err)
			}
			p.Headers = addressed(d.Headers, kept, address)
			size, err := rabbit.HeaderSize(p.Headers)
			if err == nil && size+delays.Reserve(len(address.Headers), key) <= rabbit.HeaderRoom(p) {
				if due := now.Add(delay); due.After(row.DueBy) {
					row.DueBy = due
				}
				return rabbit.Item{Exchange: address.Exchange, Key: key, Message: p}, nil
			}
			// The broker adds to the headers in each level.
			longer, ok := layouts.FewerLevels(delay)
			if !ok {
				return rabbit.Item{}, fmt.Errorf("message %s: %w: its headers leave no room to wait", d.MessageId, rabbit.ErrTooLarge)
			}
			delay = longer
		}
	}
}

// addressed are the headers of a waiting message: those that it keeps, with their types, and those of its new address.
func addressed(raw rabbit.Table, kept map[string]any, to layouts.Address) rabbit.Table {
	headers := make(map[string]any, len(kept)+len(to.Headers))
	for name, value := range kept {
		if name != "x-death" { // of which some entries may be left
			value = raw[name]
		}
		headers[name] = value
	}
	maps.Copy(headers, to.Headers)
	return rabbit.ToTable(headers)
}

// addressOf is the address at which a message waits on the target. What it needs is declared.
func (m *move) addressOf(ctx context.Context, delay time.Duration, to, key string) (layouts.Address, error) {
	if exchange, ok := envelope.ExchangeOf(to); ok {
		return m.delays.ToExchange(ctx, delay, exchange, key)
	}
	address, err := m.delays.Back(ctx, delay, to == layouts.ToHome, time.Time{})
	if err == nil && to != layouts.ToQueue && to != layouts.ToHome {
		address.Headers[layouts.HeaderTo] = to // of another program, and not known: as on the source, it becomes an orphan
	}
	return address, err
}

// returnBindings are the bindings by which waiting messages return to their queues.
type returnBindings struct {
	source, target map[returnBinding]bool
	owners         map[string]string
}

// returnBinding is a binding by which waiting messages return: that of rehop.return for a key, or that of rehop.home for a queue.
type returnBinding struct{ exchange, name string }

func returnsOf(bindings []topology.Binding) map[returnBinding]bool {
	returns := make(map[returnBinding]bool)
	for _, b := range bindings {
		switch b.Source {
		case layouts.ReturnExchange:
			returns[returnBinding{b.Source, b.Key}] = true
		case layouts.HomeExchange:
			returns[returnBinding{b.Source, envelope.Text(b.Args[envelope.Queue])}] = true
		}
	}
	return returns
}

// keyOf is the routing key with which a waiting message returns on the target. There its queue may have a landing queue, or have
// none, unlike on the source. If it could not return on the source either, it becomes an orphan there, too.
func (w returnBindings) keyOf(to, key string, headers map[string]any) (string, error) {
	switch to {
	case layouts.ToQueue:
		for _, other := range []string{key, w.owners[key], layouts.LandingQueue(key)} {
			if w.target[returnBinding{layouts.ReturnExchange, other}] {
				return other, nil
			}
		}
		if w.source[returnBinding{layouts.ReturnExchange, key}] {
			return "", fmt.Errorf("%w on the target when its delay is over: exchange %q has no binding for %q there", rabbit.ErrUnroutable, layouts.ReturnExchange, key)
		}
	case layouts.ToHome:
		home := returnBinding{layouts.HomeExchange, envelope.Text(headers[envelope.Queue])}
		if w.source[home] && !w.target[home] {
			return "", fmt.Errorf("%w on the target when its delay is over: exchange %q has no binding for queue %q there", rabbit.ErrUnroutable, layouts.HomeExchange, home.name)
		}
	}
	return key, nil
}

// wantsWaiting reports whether a message of a delay queue belongs to a queue that is moved.
func (m *move) wantsWaiting(queue string, d rabbit.Message) bool {
	headers := rabbit.FromTable(d.Headers)
	w, _ := layouts.WaitingIn(queue, headers, time.Now())
	owner := envelope.Text(headers[envelope.Queue])
	if owner == "" && w.To == layouts.ToQueue {
		owner = d.RoutingKey
	}
	if owner == "" {
		return len(m.options.Queues) == 0
	}
	return m.wants(owner)
}
