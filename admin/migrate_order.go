package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// ErrHeld: the queue is handled in order by key, is to be so no more, and its held queue has messages that wait. They would be left behind. Start a
// subscriber with OrderBy, and migrate when it has handled them.
var ErrHeld = errors.New("messages wait in its held queue")

// hasOwner reports whether one process at a time handles the messages of a queue: rehop.Subscriber.OrderBy needs that.
func hasOwner(q topology.Queue) bool {
	alone, _ := q.Args["x-single-active-consumer"].(bool)
	return alone && layouts.IsQuorum(q)
}

// heldOf is the held queue of a queue of a plan, if the plan has its messages handled in order by key.
func heldOf(plan topology.Plan, queue topology.Queue) (topology.Queue, bool) {
	i := slices.IndexFunc(plan.Queues, func(q topology.Queue) bool { return q.Name == layouts.HeldQueue(queue.Name) && hasOwner(q) })
	if i < 0 || !hasOwner(queue) {
		return topology.Queue{}, false
	}
	return plan.Queues[i], true
}

// heldIn is the held queue of the present queue, if its messages are handled in order by key.
func (m *migration) heldIn(live topology.Live) topology.LiveQueue {
	held, exists := live.Queue(layouts.HeldQueue(m.want.Name))
	if !exists || !hasOwner(held.Queue) || !hasOwner(m.have.Queue) {
		return topology.LiveQueue{}
	}
	return held
}

// inOrder refuses what would break the order of messages that are handled in order by key.
func (m *migration) inOrder(ctx context.Context) error {
	if m.state.wanted || m.held.Name == "" {
		return nil
	}
	if m.options.Consumers == IgnoreConsumers {
		return fmt.Errorf("%w: the process that handles a queue in order keeps messages unacked as long as it consumes; stop it, or have the migration wait for it (--consumers %s)",
			ErrConsumers, AwaitConsumers)
	}
	if !m.state.leaves || m.progress.Step > 0 {
		return nil
	}
	waiting, _, err := m.readHeld(ctx, false)
	if err != nil || waiting == 0 {
		return err
	}
	return m.stillHeld(waiting)
}

func (m *migration) stillHeld(waiting int) error {
	return fmt.Errorf("%w: queue %q has %d, and nobody would read them; start a subscriber that handles %q in order until `rehop held ls` shows none, stop it, and run this again",
		ErrHeld, m.held.Name, waiting, m.want.Name)
}

// readHeld reads the held queue, and returns how many messages wait there. The others are notes of the processes that have handled the queue: with remove,
// they are removed, unless messages wait.
func (m *migration) readHeld(ctx context.Context, remove bool) (waiting, notes int, err error) {
	depth, err := m.admin.read.InspectClosely(ctx, m.held.Name)
	if err != nil || depth.Messages == 0 {
		return 0, 0, queueError(err)
	}
	session, err := m.admin.read.OpenSession(ctx, rabbit.ConsumeOptions{Queue: m.held.Name}, depth.Messages)
	if err != nil {
		return 0, 0, queueError(err)
	}
	defer session.Close() // the broker requeues what was not acked
	defer context.AfterFunc(ctx, session.Close)()
	// Another process may have become the active consumer, and then nothing arrives.
	slow := time.AfterFunc(idle, session.Close)
	defer slow.Stop()
	var read []rabbit.Delivery
	for len(read) < depth.Messages {
		d, ok := session.Next()
		if !ok {
			return 0, 0, errors.Join(ctx.Err(), fmt.Errorf("queue %q could not be read: a process may handle queue %q; stop it, and run this again", m.held.Name, m.want.Name))
		}
		read = append(read, d)
		slow.Reset(idle)
		if envelope.IsOrderNote(envelope.Text(d.Headers[envelope.OrderKind])) {
			notes++
		} else {
			waiting++
		}
	}
	if !remove || waiting > 0 {
		return waiting, notes, nil
	}
	session.Cancel()
	for _, d := range read {
		if !d.Ack() {
			return 0, 0, fmt.Errorf("connection lost while queue %q was emptied", m.held.Name)
		}
	}
	<-session.Ended() // the broker has every ack
	return 0, notes, nil
}

// deleteHeld deletes the held queue of a queue that is to be handled in order no more. With it, messages that are replayed from the failed queue would go
// to a queue that nobody reads.
func (m *migration) deleteHeld(ctx context.Context) error {
	s := &statistics{queue: m.held}
	for {
		unacked, sure, err := s.away(ctx, m.admin.management, m.instant)
		switch {
		case err != nil:
			return err
		case unacked > 0:
			err = m.waiting(ctx, fmt.Sprintf("%d unacked messages of queue %q", unacked, m.held.Name))
		case !sure:
			err = m.waiting(ctx, fmt.Sprintf("the broker to show whether messages of queue %q are unacked", m.held.Name))
		default:
			waiting, notes, err := m.readHeld(ctx, true)
			switch {
			case err != nil:
				return err
			case waiting > 0:
				return m.stillHeld(waiting)
			case notes > 0:
				continue
			}
			_, err = m.admin.write.DeleteQueue(ctx, m.held.Name, false)
			return err
		}
		if err != nil {
			return err
		}
	}
}

// own reports whether a message is one that the process which handles the queue in order has sent to itself.
func (m *migration) own(d rabbit.Delivery) bool {
	return (m.ordered || hasOwner(m.have.Queue)) && len(d.Body) == 0 && envelope.Text(d.Headers[envelope.OrderKind]) == envelope.OrderProbe
}

// Messages keep their order only if those that came before a switch of the gate are in the next queue before the first one that comes after it. So for
// a moment the gate leads to a queue that refuses every message, as a full queue does, and publishers publish again. Dead letters have no such
// publisher: they are recognized by a header, and go to the queue that keeps messages. RabbitMQ confirms messages that reach a queue while it is
// deleted, so the queue that refuses messages is deleted only at the end, long after its binding.

// pausing are the exchanges between the gate and the exchange that leads to the queue that keeps messages.
func (m *migration) pausing() topology.Plan {
	letters, pause, aside := layouts.LettersExchange(m.want.Name), layouts.PauseQueue(m.want.Name), layouts.AsideExchange(m.want.Name)
	return topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: pause, Type: "fanout", Args: topology.Args{"alternate-exchange": aside}},
			{Name: letters, Type: "headers", Args: topology.Args{"alternate-exchange": pause}},
		},
		Bindings: []topology.Binding{{Source: letters, Destination: aside, ToExchange: true, Args: topology.Args{"x-match": "all-with-x", firstDeath: nil}}},
	}
}

// firstDeath is a header of every dead letter. RabbitMQ 4 does not show x-death to a headers exchange.
const firstDeath = "x-first-death-queue"

// refusing is the binding that has messages refused that would go to the queue that keeps them.
func (m *migration) refusing() topology.Binding {
	pause := layouts.PauseQueue(m.want.Name)
	return topology.Binding{Source: pause, Destination: pause}
}

// pauseGrace is how long the broker may take to move the last messages after a migration was canceled, so that it does not end while messages are refused.
const pauseGrace = 10 * time.Second

// paused does something while messages are refused.
func (m *migration) paused(ctx context.Context, do func(context.Context) error) error {
	ctx, end := rabbit.Grace(ctx, pauseGrace)
	defer end()
	err := m.admin.write.Declare(ctx, topology.Plan{
		Queues: []topology.Queue{{Name: layouts.PauseQueue(m.want.Name),
			Args: topology.Args{"x-queue-type": string(layout.Classic), "x-max-length": int64(0), "x-overflow": "reject-publish"}}},
		Bindings: []topology.Binding{m.refusing()},
	})
	if err == nil {
		err = do(ctx)
	}
	if err == nil {
		err = m.unbind(ctx, m.refusing())
	}
	if err != nil {
		return fmt.Errorf("%w; the broker refuses new messages until you run the migration again", err)
	}
	return nil
}

// closeInOrder switches the gate to the queue that keeps messages when all earlier ones are there.
func (m *migration) closeInOrder(ctx context.Context, gateToQueue topology.Binding) error {
	return m.paused(ctx, func(ctx context.Context) error {
		if err := m.unbind(ctx, gateToQueue); err != nil {
			return err
		}
		return m.carryAll(ctx, m.want.Name, layouts.AsideExchange(m.want.Name))
	})
}

// openInOrder switches the gate to the queue when all earlier messages are there.
func (m *migration) openInOrder(ctx context.Context, gateToQueue topology.Binding) error {
	return m.paused(ctx, func(ctx context.Context) error {
		if err := m.carryAll(ctx, layouts.MigratingQueue(m.want.Name), layouts.BackExchange(m.want.Name)); err != nil {
			return err
		}
		return m.bind(ctx, gateToQueue)
	})
}

// resume continues closeInOrder if an earlier run has ended within it.
func (m *migration) resume(ctx context.Context) error {
	if !m.state.refusing {
		return nil
	}
	return m.paused(ctx, func(ctx context.Context) error {
		return m.carryAll(ctx, m.want.Name, layouts.AsideExchange(m.want.Name))
	})
}

// carryAll moves everything that has been routed to a queue by now, and some of what follows. When messages still come after the time that they may take
// to the queue, as on a broker with too much to do, it continues until none comes.
func (m *migration) carryAll(ctx context.Context, from, exchange string) error {
	arrived := time.Now().Add(inFlight)
	for extra := 0; extra < maxRounds; {
		late := !time.Now().Before(arrived)
		n, err := m.carry(ctx, from, exchange)
		if err != nil || late && n == 0 {
			return err
		}
		if late {
			extra++ // dead letters may never pause
			continue
		}
		if err := rabbit.Pause(ctx, min(pollPause, time.Until(arrived))); err != nil {
			return err
		}
	}
	return nil
}
