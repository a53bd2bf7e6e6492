package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop"
)

// Fate is what the handler of a queue does with a message.
type Fate int

// The fates of a message.
const (
	Fine        Fate = iota // handled at the first attempt
	FailsOnce               // handled at the second, one step later
	FailsLater              // the same, with a delay that has no step and so passes the cascade
	FailsAlways             // ends in the failed queue after the last attempt
	Unbound                 // no queue is bound for it: Publish must say so
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

// Of a thousand messages so many have each fate.
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
	bodySize   = 256
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

// Message is the message of this id. Its body ends with the hash of what goes before.
func (s Script) Message(id string) rehop.Message {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	random := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	body := append(make([]byte, 0, bodySize), id...)
	body = append(body, ' ')
	for len(body) < bodySize-2*sha256.Size {
		body = append(body, "0123456789abcdefghijklmnopqrstuvwxyz"[random.IntN(36)])
	}
	sum := sha256.Sum256(body)
	body = hex.AppendEncode(body, sum[:])
	_, n := split(id)
	key := boundKey
	if s.Fate("", id) == Unbound {
		key = unboundKey
	}
	return rehop.Message{
		ID: id, Exchange: s.Exchange, Key: key, Body: body,
		ContentType: "text/plain", CorrelationID: "for " + id, Type: "audited",
		Headers: map[string]any{"audit-number": int64(n), "audit-seed": strconv.FormatUint(s.Seed, 10), "x-foreign": true},
	}
}

// intact reports whether a body is as Message made it.
func intact(body []byte) bool {
	cut := len(body) - 2*sha256.Size
	if cut < 0 {
		return false
	}
	sum := sha256.Sum256(body[:cut])
	return hex.EncodeToString(sum[:]) == string(body[cut:])
}
