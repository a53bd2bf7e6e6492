package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
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

// Held is a message that waits because messages are handled in order by key (rehop.Subscriber.OrderBy): it has failed, or a
// message of its key before it has.
type Held struct {
	ID  string
	Key string // by which it is ordered
	// Blocks: the message is in the failed queue, and those of its key wait until it is replayed, or Skip is called.
	Blocks      bool
	Failures    int       // how often it has failed
	Due         time.Time // of its next attempt; zero if it has none
	FirstFailed time.Time // zero if it has not failed
	Kind        rehop.Kind
	Error       string // the beginning of the last error's text
}

// ErrNoAnswer: no process handles the messages of the queue, or it does not answer.
var ErrNoAnswer = errors.New("no process that handles the messages of the queue has answered")

// Held returns messages of a queue that wait in order, those of each key in their order, and how many there are. It returns at
// most 5,000. Only the process that handles the queue's messages knows them, and is asked. If none answers before ctx ends, the
// error is ErrNoAnswer. If the queue is not handled in order by key, it is ErrNoQueue.
func (a *Admin) Held(ctx context.Context, queue string) (messages []Held, total int, err error) {
	held := layouts.HeldQueue(queue)
	fail := func(err error) ([]Held, int, error) {
		return nil, 0, fmt.Errorf("list what waits in %q: %w", held, err)
	}
	if _, exists, err := existing(a.read.Inspect(ctx, held)); err != nil {
		return fail(err)
	} else if !exists {
		return fail(fmt.Errorf("%w; %q is not handled in order by key", ErrNoQueue, queue))
	}
	request, err := a.requester.Send(ctx, "", held, &rabbit.Publishing{MessageId: rabbit.NewID(), DeliveryMode: rabbit.Persistent,
		Headers: rabbit.Table{envelope.OrderKind: envelope.OrderList, envelope.OrderSession: adminName}})
	if err != nil {
		return fail(err)
	}
	defer request.End()
	reply, err := request.Reply(ctx)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", ErrNoAnswer, err))
	}
	var list envelope.HeldList
	if err := json.Unmarshal(reply.Body, &list); err != nil {
		return fail(fmt.Errorf("the answer cannot be read: %w", err))
	}
	for _, m := range list.Messages {
		messages = append(messages, Held{ID: m.ID, Key: m.Key, Blocks: m.Blocks, Failures: m.Attempt, Due: m.Due, FirstFailed: m.FirstFailed,
			Kind: rehop.Kind(m.Kind), Error: m.Error})
	}
	return messages, list.Total, nil
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
