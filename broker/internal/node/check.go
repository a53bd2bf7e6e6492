package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// PeekedMessage is a message that stays in its queue.
type PeekedMessage struct {
	Exchange, Key string
	Properties    wire.Properties
	Body          []byte
	Redelivered   bool
}

// PeekMessages returns the ready messages of a queue, from its head. They stay in the queue.
func (q *Queue) PeekMessages() ([]PeekedMessage, error) {
	return q.peeked(q.Core.Peek(q.Status().Ready))
}

// PeekUnacked returns the unacked messages of a queue, in no order.
func (q *Queue) PeekUnacked() ([]PeekedMessage, error) {
	var items []queue.Item
	q.Vhost.node.clients.EachUnacked(func(of *Queue, it queue.Item) {
		if of == q {
			items = append(items, it)
		}
	})
	return q.peeked(items)
}

// peeked reads messages.
func (q *Queue) peeked(items []queue.Item) ([]PeekedMessage, error) {
	seen := make([]PeekedMessage, 0, len(items))
	for _, it := range items {
		content := it.Message.Content()
		if content == nil && it.Message.Stored() {
			stored, err := q.Vhost.node.Store.Read(&it.Message.Message)
			if errors.Is(err, store.ErrSettled) { // meanwhile
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read a message of %s: %w", q, err)
			}
			content = &stored
		}
		if content == nil { // it was delivered and acknowledged meanwhile
			continue
		}
		properties, err := wire.ParseProperties(content.Properties)
		if err != nil {
			return nil, fmt.Errorf("read the properties of a message of %s: %w", q, err)
		}
		seen = append(seen, PeekedMessage{Exchange: content.Exchange, Key: content.Key, Properties: properties, Body: content.Body, Redelivered: it.Redelivered})
	}
	return seen, nil
}

// NextDue returns the time until a message at the head of a queue expires or a delayed one becomes ready, and whether
// there is one.
func (n *Node) NextDue() (wait time.Duration, waits bool) {
	now := n.Clock()
	due := func(left time.Duration) {
		if !waits || left < wait {
			wait, waits = left, true
		}
	}
	for q := range n.Queues() {
		for _, head := range q.Core.Peek(1) {
			if head.Expires != 0 {
				due(max(head.Expires-now, 0))
			}
		}
		if s := q.Core.Status(); s.Delayed > 0 {
			due(s.NextReady)
		}
	}
	return wait, waits
}

// Moving returns how many steps dead letters have made so far, and how many dead letters are between queues. A caller
// that reads several queues has seen all messages if none was between queues before, and no step was made meanwhile.
func (n *Node) Moving() (steps uint64, dying int) {
	steps = n.steps.Load()
	for q := range n.Queues() {
		dying += q.Status().Dying
	}
	return steps, dying
}

// holding is what a queue has, counted message by message.
type holding struct {
	messages int
	bytes    int64
}

func (h *holding) add(q *Queue, it queue.Item) {
	h.messages++
	h.bytes += q.Core.Weight(it.Message)
}

// CheckCounts compares the counters of queues, memory and log with the messages that are there. Nothing may be published
// or consumed meanwhile. Messages may expire: what was read while a dead letter was between two queues is read again.
func (n *Node) CheckCounts() error {
	const (
		pause = time.Millisecond
		most  = 10_000 // readings; after them, what is still between queues is a fault like any other
	)
	for reading := 1; ; reading++ {
		steps, dying := n.Moving()
		waiting, err := n.compareCounts()
		stepsAfter, dyingAfter := n.Moving()
		undisturbed := steps == stepsAfter && dying == waiting && dyingAfter == waiting
		if err == nil || undisturbed || reading == most {
			return err
		}
		time.Sleep(pause)
	}
}

// compareCounts is one reading of CheckCounts. It also returns how many dead letters wait for their target.
func (n *Node) compareCounts() (waiting int, err error) {
	var faults []error
	compare := func(what string, counter, has any) {
		if counter != has {
			faults = append(faults, fmt.Errorf("%s: the counter is %v, there are %v", what, counter, has))
		}
	}
	held := make(map[*queue.Message]bool)
	logged := make(map[*queue.Message]bool)
	note := func(q *Queue, it queue.Item) {
		held[it.Message] = true
		if q.kept() && (it.Message.Persistent || q.Core.Type == queue.Quorum) {
			logged[it.Message] = true
		}
	}
	unacked := make(map[*Queue]holding)
	n.clients.EachUnacked(func(q *Queue, it queue.Item) {
		h := unacked[q]
		h.add(q, it)
		unacked[q] = h
		note(q, it)
	})
	for q := range n.Queues() {
		status := q.Status()
		var inQueue holding
		for _, it := range append(q.Core.Peek(status.Ready+1), q.Core.Delayed()...) {
			inQueue.add(q, it)
			note(q, it)
		}
		for _, d := range q.waiting.peek() {
			waiting++
			note(q, d.Item)
		}
		compare(q.String()+", ready or delayed", holding{status.Ready + status.Delayed, status.ReadyBytes}, inQueue)
		compare(q.String()+", unacknowledged", holding{status.Unacked, status.UnackedBytes}, unacked[q])
	}
	if len(held) == 0 {
		compare("bytes of messages in memory", n.budget.Used(), int64(0))
	}
	if n.Store != nil {
		stats := n.Store.Stats()
		compare("messages in the log", stats.Messages, len(logged))
		if stats.SetAside > 0 {
			faults = append(faults, fmt.Errorf("%d messages could not be read and were set aside; their files in %s end with .damaged", stats.SetAside, n.Config.Dir))
		}
	}
	return waiting, errors.Join(faults...)
}
