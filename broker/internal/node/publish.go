package node

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// enqueue prepares a message for its queues and adds it to a batch of the log. The queues get it after the commit.
func (n *Node) enqueue(b *store.Batch, c *store.Content, brief wire.Brief, queues []*Queue, ttl time.Duration) *queue.Message {
	m := queue.NewMessage(c, len(queues))
	m.Priority, m.HasPriority = brief.Priority, brief.HasPriority
	m.Persistent = brief.DeliveryMode == 2
	n.budget.Admit(m)
	var few [8]store.QueueID
	keep := few[:0]
	for _, q := range queues {
		if q.kept() && (m.Persistent || q.Core.Type == queue.Quorum) {
			keep = append(keep, q.Core.ID)
		}
	}
	if len(keep) > 0 {
		m.Pinned = len(keep) < len(queues)
		meta := store.Meta{Enqueued: n.logClock.now(), TTL: store.NoTTL, Priority: brief.Priority, HasPriority: brief.HasPriority, Persistent: m.Persistent}
		if ttl >= 0 {
			meta.TTL = ttl.Milliseconds()
		}
		b.Publish(&m.Message, *c, meta, keep)
	}
	return m
}

// Outcome is the result of a publish.
type Outcome struct {
	Routed  bool
	Refused bool
	Mark    store.Mark // it is on disk when the log is, up to here; 0: nothing of it is stored
}

// Publish adds a message to the queues that it was routed to. A full queue can refuse it; the others accept it anyway.
func (n *Node) Publish(c *store.Content, brief wire.Brief, ttl time.Duration, queues []*Queue) Outcome {
	out := Outcome{Routed: len(queues) > 0}
	queues, refused := n.admitted(queues, c)
	out.Refused = refused
	if len(queues) == 0 {
		return out
	}
	b := n.Batch()
	m := n.enqueue(b, c, brief, queues, ttl)
	stored := b.Len() > 0
	mark := n.Commit(b)
	if stored {
		out.Mark = mark
	}
	for _, q := range queues {
		n.Apply(q, q.Core.Push(m, ttl))
	}
	return out
}

// admitted returns the queues without those that refuse a message because they are full.
func (n *Node) admitted(queues []*Queue, c *store.Content) (open []*Queue, refused bool) {
	full := func(q *Queue) bool { return !q.Core.Admits(len(c.Body)) }
	if !slices.ContainsFunc(queues, full) {
		return queues, false
	}
	for _, q := range queues {
		if !full(q) {
			open = append(open, q)
			continue
		}
		refused = true
		if q.Core.RefusesToDeadLetter() {
			m := queue.NewMessage(c, 1)
			n.budget.Admit(m)
			n.Apply(q, q.Core.Refuse(m))
		}
	}
	return open, refused
}

// maxTTL is the longest TTL that RabbitMQ accepts.
const maxTTL = 10 * 365 * 24 * time.Hour

// ParseExpiration parses a message's own TTL as RabbitMQ does: a sign, digits, and nothing else. Negative: there is none.
func ParseExpiration(raw []byte) (time.Duration, error) {
	if raw == nil {
		return -1, nil
	}
	invalid := func(format string, args ...any) error {
		return Refuse(wire.PreconditionFailed, "invalid expiration '%s': %s", raw, fmt.Sprintf(format, args...))
	}
	digits := bytes.TrimPrefix(raw, []byte("-"))
	negative := len(digits) < len(raw)
	if !negative {
		digits = bytes.TrimPrefix(raw, []byte("+"))
	}
	number := digits[:LeadingDigits(digits)]
	rest := digits[len(number):]
	significant := bytes.TrimLeft(number, "0")
	switch {
	case len(number) == 0:
		return 0, invalid("no_integer")
	case len(rest) > 0:
		return 0, invalid("{leftover_string,%s}", erlang.String(string(rest)))
	case negative && len(significant) > 0:
		return 0, invalid("{value_negative,-%s}", significant)
	}
	ms, err := strconv.ParseInt("0"+string(significant), 10, 64)
	if err != nil || ms > maxTTL.Milliseconds() {
		return 0, invalid("{value_too_large,%s}", significant)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// LeadingDigits returns how many digits are at the beginning.
func LeadingDigits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}
