package crashes

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// books know what was published, what consumers have seen and answered, and what lay in the queues at the end.
type books struct {
	script script

	mu       sync.Mutex
	messages [publishers][]*message
	counts   counts
	pending  int               // stays of confirmed messages that nobody has answered
	limit    int               // of pending, at which publishers pause
	began    map[int]time.Time // first confirm, by generation
	changed  chan struct{}     // not nil while somebody waits; closed at the next change
	audit    audit
}

// message is published once, and never again whatever becomes of it.
type message struct {
	route      *route
	generation int // in which it was sent
	outcome    outcome
	stays      []stay // in the order of the route's queues
}

type outcome int

const (
	open outcome = iota
	confirmed
	unknown
)

// stay is what is known of a message in one of its queues.
type stay struct {
	first, last int // generations in which it was delivered; 0: never
	acked       bool
	rejected    bool
	requeued    bool
	sealed      bool // its ack or reject is on disk: something later was confirmed
	doubts      int  // transactions that may have moved it
	here        int  // copies found in the queue, or on the way to it
	parked      int  // copies found where it goes when it is rejected or moved
}

// awaits reports whether a consumer is still to answer. Whether a transaction has moved a message may stay in doubt.
func (m *message) awaits(s *stay) bool {
	return !s.acked && !s.rejected && !m.route.rests && !m.route.moves
}

func (s *stay) seen() bool { return s.first > 0 || s.here+s.parked > 0 }

// audit counts what must not be.
type audit struct {
	lost     int // confirmed, and not in a queue that it was routed to
	torn     int // not confirmed, and in some of its queues
	returned int // answered and on disk, and yet there again
	doubled  int // twice in one queue, other than by redelivery
	spoilt   int // not as it was published
	other    int // anything else
	examples []string
}

func (a *audit) add(b audit) {
	a.lost += b.lost
	a.torn += b.torn
	a.returned += b.returned
	a.doubled += b.doubled
	a.spoilt += b.spoilt
	a.other += b.other
}

// breach counts, and keeps the first few for the reader.
func (a *audit) breach(count *int, format string, args ...any) {
	if *count++; *count <= 5 {
		a.examples = append(a.examples, fmt.Sprintf(format, args...))
	}
}

func newBooks(s script) *books {
	return &books{script: s, limit: backlog, began: make(map[int]time.Time)}
}

// note changes the books.
func (b *books) note(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// await waits until the books show something.
func (b *books) await(ctx context.Context, what string, shows func() bool) error {
	for {
		b.mu.Lock()
		done := shows()
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, ctx.Err())
		}
	}
}

// setLimit changes the number of unanswered messages at which publishers pause.
func (b *books) setLimit(n int) { b.note(func() { b.limit = n }) }

// counts are the numbers that only grow.
type counts struct {
	confirmed, unknown int // messages, by their outcomes
	answers            int // acks and rejects
	blocks             int // times that a connection was notified that it is blocked
}

func (b *books) count() counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// attempt notes that a publisher is about to send its next message.
func (b *books) attempt(publisher, generation int) (id string) {
	b.note(func() {
		id = fmt.Sprintf("%d.%d", publisher, len(b.messages[publisher]))
		r := b.script.route(id)
		b.messages[publisher] = append(b.messages[publisher], &message{route: r, generation: generation, stays: make([]stay, len(r.queues))})
	})
	return id
}

// concluded notes what became of an attempt.
func (b *books) concluded(id string, generation int, o outcome) {
	b.note(func() {
		m := b.find(id)
		m.outcome = o
		if o == unknown {
			b.counts.unknown++
			return
		}
		b.counts.confirmed++
		if _, ok := b.began[generation]; !ok {
			b.began[generation] = time.Now()
		}
		for i := range m.stays {
			if m.awaits(&m.stays[i]) {
				b.pending++
			}
		}
	})
}

// blocked records that a client was notified that it is blocked.
func (b *books) blocked() { b.note(func() { b.counts.blocks++ }) }

// fault notes something that none of the other words is for.
func (b *books) fault(format string, args ...any) {
	b.note(func() { b.audit.breach(&b.audit.other, format, args...) })
}

// find returns the message of an id, or nil.
func (b *books) find(id string) *message {
	before, after, _ := strings.Cut(id, ".")
	publisher, err := strconv.Atoi(before)
	if err != nil || publisher < 0 || publisher >= publishers {
		return nil
	}
	n, err := strconv.Atoi(after)
	if err != nil || n < 0 || n >= len(b.messages[publisher]) {
		return nil
	}
	return b.messages[publisher][n]
}

// stay returns the message of an id and its stay in a queue, or notes that there is none.
func (b *books) stay(queue, id string) (*message, *stay) {
	m := b.find(id)
	if m == nil {
		b.audit.breach(&b.audit.spoilt, "%q came to %s and was never published", id, queue)
		return nil, nil
	}
	for i, q := range m.route.queues {
		if q == queue {
			return m, &m.stays[i]
		}
	}
	b.audit.breach(&b.audit.spoilt, "%s came to %s, and its way is %s", id, queue, m.route.name)
	return nil, nil
}

// delivered notes a delivery, and returns whether the message was given back to the queue before.
func (b *books) delivered(queue, id string, body []byte, redelivered bool, generation int) (requeued bool) {
	b.note(func() {
		if !b.script.intact(id, body) {
			b.audit.breach(&b.audit.spoilt, "%s in %s: the body has changed", id, queue)
		}
		m, s := b.stay(queue, id)
		if s == nil {
			return
		}
		switch {
		case s.sealed:
			b.audit.breach(&b.audit.returned, "%s was delivered from %s (%s), and its answer was on disk", id, queue, m.story(s))
		case s.first > 0 && !redelivered && (m.route.straight || s.last == generation):
			b.audit.breach(&b.audit.doubled, "%s was delivered from %s in life %d as if for the first time (%s)", id, queue, generation, m.story(s))
		}
		if s.first == 0 {
			s.first = generation
		}
		s.last = generation
		requeued = s.requeued
	})
	return requeued
}

// answered notes what a consumer is about to answer.
func (b *books) answered(queue, id string, a answer) {
	b.note(func() {
		m, s := b.stay(queue, id)
		if s == nil {
			return
		}
		if a == giveBack {
			s.requeued = true
			return
		}
		b.counts.answers++
		if m.outcome == confirmed && m.awaits(s) {
			b.pending--
		}
		s.acked = s.acked || a == ack
		s.rejected = s.rejected || a == reject
	})
}

// sealed notes that answers are on disk.
func (b *books) sealed(queue string, ids []string) {
	b.note(func() {
		for _, id := range ids {
			if _, s := b.stay(queue, id); s != nil {
				s.sealed = true
			}
		}
	})
}

// doubted notes that a transaction may have moved messages.
func (b *books) doubted(queue string, ids []string) {
	b.note(func() {
		for _, id := range ids {
			if _, s := b.stay(queue, id); s != nil {
				s.doubts++
			}
		}
	})
}

// found notes a message that lay in a queue at the end.
func (b *books) found(place, id string, body []byte) {
	b.note(func() {
		if !b.script.intact(id, body) {
			b.audit.breach(&b.audit.spoilt, "%s in %s: the body has changed", id, place)
		}
		if owner, ok := parking[place]; ok {
			if _, s := b.stay(owner, id); s != nil {
				s.parked++
			}
			return
		}
		m := b.find(id)
		if m == nil || m.route.via != place {
			if _, s := b.stay(place, id); s != nil {
				s.here++
			}
			return
		}
		for i := range m.stays {
			m.stays[i].here++
		}
	})
}

// close balances the books.
func (b *books) close(t *testing.T) tally {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for publisher, messages := range b.messages {
		for n, m := range messages {
			m.audit(&b.audit, fmt.Sprintf("%d.%d", publisher, n))
		}
	}
	for _, line := range b.audit.examples {
		t.Error(line)
	}
	return tally{confirmed: b.counts.confirmed, unknown: b.counts.unknown, audit: b.audit}
}

func (m *message) audit(a *audit, id string) {
	after, absent := "", ""
	for i := range m.stays {
		s, queue := &m.stays[i], m.route.queues[i]
		copies := s.here + s.parked
		if copies > 1+s.doubts {
			a.breach(&a.doubled, "%s of %s was found %d times (%s)", id, queue, copies, m.story(s))
		}
		if s.sealed && s.here > 0 {
			a.breach(&a.returned, "%s was found in %s, and its answer was on disk (%s)", id, queue, m.story(s))
		}
		if m.outcome == confirmed && copies == 0 && (!s.acked || m.route.moves) {
			a.breach(&a.lost, "%s was confirmed and is nowhere in %s (%s)", id, queue, m.story(s))
		}
		if s.last > m.generation || copies > 0 {
			after = queue
		}
		if !s.seen() {
			absent = queue
		}
	}
	if m.outcome != confirmed && after != "" && absent != "" {
		a.breach(&a.torn, "%s was in %s after life %d and never in %s", id, after, m.generation, absent)
	}
}

// story is for the reader of a breach.
func (m *message) story(s *stay) string {
	return fmt.Sprintf("way %s, sent in life %d, outcome %d, delivered in lives %d to %d, acked %t, rejected %t, requeued %t, sealed %t, %d here, %d parked, %d doubts",
		m.route.name, m.generation, m.outcome, s.first, s.last, s.acked, s.rejected, s.requeued, s.sealed, s.here, s.parked, s.doubts)
}
