package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// Skip lets the messages of a key continue that wait for a message of the queue: it will not be replayed in order, or is to be
// handled no more. With rehop.Halt that is a message in the failed queue, which stays there. A message that waits for its next
// attempt goes to the failed queue. id is the message's id. Skip returns when the broker has the order; the process that handles
// the queue's messages carries it out, as soon as there is one. An id for which nothing waits has no effect.
//
// The queue must be one that is handled in order by key (rehop.Subscriber.OrderBy). Otherwise the error is ErrNoQueue.
func (a *Admin) Skip(ctx context.Context, queue, id string) error {
	if id == "" {
		return fmt.Errorf("skip a message of %q: the id is empty", queue)
	}
	held := layouts.HeldQueue(queue)
	err := a.sender.Publish(ctx, "", held, &rabbit.Publishing{MessageId: id, DeliveryMode: rabbit.Persistent,
		Headers: rabbit.Table{envelope.OrderKind: envelope.OrderSkip, envelope.OrderSession: adminName}}, true)
	switch {
	case errors.Is(err, rabbit.ErrUnroutable):
		return fmt.Errorf("skip message %s of %q: %w: %q; the queue is not handled in order by key", id, queue, ErrNoQueue, held)
	case err != nil:
		return fmt.Errorf("skip message %s of %q: %w", id, queue, err)
	}
	return nil
}

// replayInOrder returns a message to the place at which the messages of its key wait for it.
func replayInOrder(m Message, f envelope.Failure) rabbit.Item {
	f.Order = m.failure.Order
	again := m.publishing(f)
	again.Headers[envelope.OrderKind], again.Headers[envelope.OrderSession] = envelope.OrderReplay, adminName
	return rabbit.Item{Key: f.Order.Held, Message: again}
}

// heldQueues are queues in which messages wait in order, with whether they exist.
type heldQueues struct {
	admin *Admin
	known map[string]bool
}

// exists reports whether there is a queue. If its subscription no longer handles messages in order, there is none, and the
// message is replayed as any other.
func (h heldQueues) exists(ctx context.Context, queue string) (bool, error) {
	if queue == "" {
		return false, nil
	}
	if exists, ok := h.known[queue]; ok {
		return exists, nil
	}
	_, exists, err := existing(h.admin.read.Inspect(ctx, queue))
	if err == nil {
		h.known[queue] = exists
	}
	return exists, err
}
