package delivery

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

// Fate is what the handler of a queue does with a message.
type Fate int

// The fates of a message.
const (
	Fine        Fate = iota // handled at the first attempt
	FailsOnce               // handled at the second, one step later
	FailsLater              // the same, with a delay that has no step and so passes the cascade
	FailsAlways             // ends in the failed queue after the last attempt
	Unbound                 // no queue is bound for it: Publish must report that
	Orphaned                // its queue is deleted while it waits: it ends among the orphans
)

// Script decides from the seed alone what becomes of each message, so that the handler, wherever it
// runs, and the auditor agree without talking.
type Script struct {
	Seed     uint64
	Exchange string
	// Queues are bound to the same keys. The first fails messages of every kind, the second fails
	// only such as the first does not, the others fail none: a retry that reaches another queue than
	// the one that failed it is then seen.
	Queues []string
	// Doomed is a queue that is deleted while its messages wait. Empty: there is none.
	Doomed string
	// Doom is how long its messages wait: long enough to delete the queue meanwhile.
	Doom time.Duration
	// Steps are the waits of the schedule, and Later is one that has no step of its own.
	Steps []time.Duration
	Later time.Duration
	// Share is by how much the share of messages that fail is larger than usual. Default: 1.
	Share uint64

	// Name is that of a script for a layout; see Layouts.
	Name string
	// Layout is that of the exchange and the subscriptions. Nil: rehop's own.
	Layout layout.Layout `json:"-"`
	// Usual: Steps are the layout's own waits, and the subscriptions do not name any.
	Usual bool
	// QueueType and MaxLength are those of the queues. Default: the layout's.
	QueueType layout.QueueType
	MaxLength int
	// Objects: bodies are JSON objects, into which the layout writes.
	Objects bool
	// KeepsUnrouted: what no queue is bound for is kept by the layout, and confirmed.
	KeepsUnrouted bool
	// RedeliveryFails: a message that is delivered again counts as failed.
	RedeliveryFails bool
	// BrokerCounts: the count of failures is the broker's alone.
	BrokerCounts bool
	// ForgetsDeaths: the broker ignores an x-death that a client sends, as RabbitMQ does from 4.0 on.
	ForgetsDeaths bool
}

// NewScript is the usual script.
func NewScript(seed uint64) Script {
	return Script{
		Seed: seed, Exchange: "audit", Queues: []string{"audit-a", "audit-b", "audit-c"},
		Steps: []time.Duration{300 * time.Millisecond, 500 * time.Millisecond}, Later: 700 * time.Millisecond,
		Doom: 12800 * time.Millisecond,
	}
}

// Attempts is how often a handler may run for one message.
func (s Script) Attempts() int { return len(s.Steps) + 1 }

// How many of a thousand messages have each fate, times Share.
const (
	failOnce   = 50
	failLater  = 20
	failAlways = 10
	failSecond = 20 // once, in the second queue
	unbound    = 5
)

func (s Script) lot(id string) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, s.Seed)
	_, _ = h.Write([]byte(id))
	return rand.New(rand.NewPCG(s.Seed, h.Sum64())).Uint64N(1000)
}

// Fate is what is to become of a message in a queue.
func (s Script) Fate(queue, id string) Fate {
	if s.Doomed != "" && queue == s.Doomed {
		return Orphaned
	}
	lot := s.lot(id)
	take := func(n uint64) bool {
		n *= max(s.Share, 1)
		if lot < n {
			return true
		}
		lot -= n
		return false
	}
	first := len(s.Queues) > 0 && queue == s.Queues[0]
	second := len(s.Queues) > 1 && queue == s.Queues[1]
	pick := func(f Fate, mine bool) Fate {
		if mine {
			return f
		}
		return Fine
	}
	switch {
	case take(unbound):
		return Unbound
	case take(failOnce):
		return pick(FailsOnce, first)
	case take(failLater):
		return pick(FailsLater, first)
	case take(failAlways):
		return pick(FailsAlways, first)
	case take(failSecond):
		return pick(FailsOnce, second)
	}
	return Fine
}

// routed reports whether a queue is bound for the message.
func (s Script) routed(id string) bool { return s.Fate("", id) != Unbound }

// Answer is what a handler returns at an attempt, and how long the message waits then.
func (s Script) Answer(queue, id string, attempt int) (time.Duration, error) {
	fate := s.Fate(queue, id)
	err := fmt.Errorf("attempt %d of %s fails by the script", attempt, id)
	wait := func() time.Duration {
		if attempt-1 < len(s.Steps) {
			return s.Steps[attempt-1]
		}
		return 0
	}
	switch {
	case fate == FailsOnce && attempt == 1, fate == FailsAlways:
		return wait(), err
	case fate == FailsLater && attempt == 1:
		return s.Later, rehop.RetryAfter(s.Later, err)
	case fate == Orphaned:
		return s.Doom, rehop.RetryAfter(s.Doom, err)
	}
	return 0, nil
}

const (
	boundKey   = "audit.event"
	unboundKey = "nobody.listens"
)

// id names the nth message of a producer.
func id(producer string, n int) string { return fmt.Sprintf("%s.%d", producer, n) }

// split takes an id apart; n is -1 if it is none of ours.
func split(id string) (producer string, n int) {
	producer, text, ok := strings.Cut(id, ".")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return id, -1
	}
	return producer, n
}

// Message is the message of this id.
func (s Script) Message(id string) rehop.Message {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	random := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	_, n := split(id)
	key := boundKey
	if !s.routed(id) {
		key = unboundKey
	}
	m := rehop.Message{
		ID: id, Exchange: s.Exchange, Key: key, ContentType: "text/plain", CorrelationID: "for " + id, Type: "audited",
		Headers: map[string]any{"audit-number": int64(n), "audit-seed": strconv.FormatUint(s.Seed, 10), "x-foreign": true},
	}
	if s.Objects {
		m.Body, m.ContentType = objectBody(id, random), "application/json"
	} else {
		m.Body = textBody(id, random)
	}
	return m
}

// digest stands for a body in events.
func (s Script) digest(body []byte) uint64 {
	if s.Objects {
		return digestObject(body)
	}
	return Digest(body)
}

// subscription is that to one of the queues, without a handler.
func (s Script) subscription(queue string) rehop.Subscriber {
	sub := rehop.Subscriber{Queue: queue, Layout: s.Layout, QueueType: s.QueueType, MaxLength: s.MaxLength}
	if !s.Usual {
		sub.Retry = rehop.Steps(s.Steps...)
	}
	if queue != s.Doomed {
		sub.Exchange, sub.Keys = s.Exchange, []string{boundKey}
	}
	return sub
}

// exchange is the one that messages are published to.
func (s Script) exchange() rehop.Exchange {
	return rehop.Exchange{Name: s.Exchange, Layout: s.Layout}
}
