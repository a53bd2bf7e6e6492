package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// Skip lets the messages of a key continue that wait for a message of the queue: it will not be replayed in order, or is to be
// handled no more. With rehop.Halt that is a message in the failed queue, which stays there. A message that waits for its next
// attempt goes to the failed queue. id is the message's id. Skip returns when the broker has the request; the process that handles
// the queue's messages carries it out, as soon as there is one. An id for which nothing waits has no effect.
//
// The queue must be one that is handled in order by key (rehop.Subscriber.OrderBy). Otherwise the error is ErrNoQueue.
func (a *Admin) Skip(ctx context.Context, queue, id string) error {
	if id == "" {
		return fmt.Errorf("skip a message of %q: the id is empty", queue)
	}
	partitions, err := a.partitions(ctx, queue)
	if err != nil {
		return fmt.Errorf("skip message %s of %q: %w", id, queue, err)
	}
	for _, held := range partitions {
		err := a.sender.Publish(ctx, "", held, &rabbit.Publishing{MessageId: id, DeliveryMode: rabbit.Persistent,
			Headers: rabbit.Table{envelope.OrderKind: envelope.OrderSkip, envelope.OrderSession: adminName}}, true)
		if err != nil {
			return fmt.Errorf("skip message %s of %q: %w", id, queue, err)
		}
	}
	return nil
}

// partitions are the held queues of a queue: one, or one for each partition. Each power of two is looked for, because that many there are.
func (a *Admin) partitions(ctx context.Context, queue string) (held []string, err error) {
	exists := func(n int) (bool, error) {
		_, there, err := existing(a.read.Inspect(ctx, layouts.HeldQueue(layouts.PartitionQueue(queue, n))))
		return there, err
	}
	count := 1
	for there := true; there && count < layouts.MaxPartitions; {
		if there, err = exists(count); err != nil {
			return nil, err
		} else if there {
			count *= 2
		}
	}
	for n := range count {
		held = append(held, layouts.HeldQueue(layouts.PartitionQueue(queue, n)))
	}
	if there, err := exists(0); err != nil {
		return nil, err
	} else if !there {
		return nil, fmt.Errorf("%w: %q; the queue is not handled in order by key", ErrNoQueue, held[0])
	}
	return held, nil
}

// Held is a message that waits because messages are handled in order by key (rehop.Subscriber.OrderBy): it has failed, or a
// message of its key before it has.
type Held struct {
	ID  string
	Key string // by which it is ordered
	// Blocks: the message is in the failed queue, and those of its key wait until it is replayed, or Skip is called.
	Blocks      bool
	Attempts    int       // how many attempts have failed
	Due         time.Time // of its next attempt; zero if it has none
	FirstFailed time.Time // zero if it has not failed
	Kind        rehop.Kind
	Error       string // the beginning of the last error's text
}

// ErrNoAnswer: no process handles the messages of the queue, or it does not answer.
var ErrNoAnswer = errors.New("no process that handles the messages of the queue has answered")

// Held returns messages of a queue that wait in order, those of each key in their order, and how many there are. It returns at
// most 5,000 for each partition. Only the processes that handle the queue's messages know them, and are asked. If one of them does not
// answer before ctx ends, the error is ErrNoAnswer. If the queue is not handled in order by key, it is ErrNoQueue.
func (a *Admin) Held(ctx context.Context, queue string) (messages []Held, total int, err error) {
	partitions, err := a.partitions(ctx, queue)
	if err != nil {
		return nil, 0, fmt.Errorf("list what waits in %q: %w", queue, err)
	}
	lists := make([]envelope.HeldList, len(partitions))
	faults := make([]error, len(partitions))
	var asking sync.WaitGroup
	for i, held := range partitions {
		asking.Go(func() {
			var reply rabbit.Message
			if reply, faults[i] = a.askHeld(ctx, held, ""); faults[i] == nil {
				lists[i], faults[i] = readHeld(reply)
			}
			if faults[i] != nil {
				faults[i] = fmt.Errorf("list what waits in %q: %w", held, faults[i])
			}
		})
	}
	asking.Wait()
	if err := errors.Join(faults...); err != nil {
		return nil, 0, err
	}
	for _, list := range lists {
		total += list.Total
		for _, m := range list.Messages {
			messages = append(messages, Held{ID: m.ID, Key: m.Key, Blocks: m.Blocks, Attempts: m.Attempt, Due: m.Due, FirstFailed: m.FirstFailed,
				Kind: rehop.Kind(m.Kind), Error: m.Error})
		}
	}
	return messages, total, nil
}

// ErrNotHeld: the message does not wait in order.
var ErrNotHeld = errors.New("no such message waits")

// HeldMessage returns a message that Held lists in full, with its headers, its body and the record of its failure. If several
// messages have this id, it returns the first one. A message that blocks its key does not wait itself: it is in the failed queue, and the
// error is ErrNotHeld, as for a message that is not there. Other errors are those of Held.
func (a *Admin) HeldMessage(ctx context.Context, queue, id string) (Message, error) {
	if id == "" {
		return Message{}, fmt.Errorf("show a message that waits in %q: the id is empty", queue)
	}
	partitions, err := a.partitions(ctx, queue)
	if err != nil {
		return Message{}, fmt.Errorf("show message %s that waits in %q: %w", id, queue, err)
	}
	why := error(ErrNotHeld)
	for n, held := range partitions {
		reply, err := a.askHeld(ctx, held, id)
		if err == nil && envelope.Text(reply.Headers[envelope.OrderShow]) == id {
			reply.CorrelationId = envelope.Text(reply.Headers[envelope.OrderRelates])
			return place{layout: layouts.Native{}, source: held, owner: layouts.PartitionQueue(queue, n)}.read(reply), nil
		}
		var list envelope.HeldList
		if err == nil {
			list, err = readHeld(reply)
		}
		if err != nil {
			return Message{}, fmt.Errorf("show message %s that waits in %q: %w", id, held, err)
		}
		if slices.ContainsFunc(list.Messages, func(m envelope.Held) bool { return m.ID == id && m.Blocks }) {
			why = fmt.Errorf("%w: it blocks its key, and is in the failed queue", ErrNotHeld)
		}
	}
	return Message{}, fmt.Errorf("show message %s that waits in %q: %w", id, queue, why)
}

// askHeld asks the process that has a held queue what waits, or for a message in full if there is an id.
func (a *Admin) askHeld(ctx context.Context, held, id string) (reply rabbit.Message, err error) {
	headers := rabbit.Table{envelope.OrderKind: envelope.OrderList, envelope.OrderSession: adminName}
	if id != "" {
		headers[envelope.OrderShow] = id
	}
	request, err := a.requester.Send(ctx, "", held, &rabbit.Publishing{MessageId: rabbit.NewID(), DeliveryMode: rabbit.Persistent, Headers: headers})
	if err != nil {
		return reply, err
	}
	defer request.End()
	d, err := request.Reply(ctx)
	if err != nil {
		return reply, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return d.Delivery, nil
}

// readHeld reads a list of what waits.
func readHeld(reply rabbit.Message) (list envelope.HeldList, err error) {
	if err := json.Unmarshal(reply.Body, &list); err != nil {
		return list, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return list, nil
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
