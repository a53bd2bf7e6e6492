package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
)

// hold is the hold of a queue on a message.
type hold struct {
	seq   uint64
	queue store.QueueID
}

// holds has all holds, with the state of each.
type holds map[hold]int

// state is the number of deliveries, the delay, the death, and the queues with copies.
func state(h store.Hold) int {
	all := h.Deliveries | int(h.Until)<<delayShift | int(h.Death)<<deathShift
	for _, q := range h.Copied {
		all |= 1 << (copiedShift + q%24)
	}
	return all
}

const (
	delayShift  = 10
	deathShift  = 2 * delayShift
	copiedShift = deathShift + 8
)

// mail is a published message with its content and queues.
type mail struct {
	store.Message
	content store.Content
	meta    store.Meta
	queues  []store.QueueID // that hold it
}

// user uses a store as a broker does, and remembers what must be stored.
type user struct {
	t       testing.TB
	store   *store.Store
	rng     *rand.Rand
	noise   *rand.ChaCha8
	queues  []store.QueueID
	live    []*mail
	mails   map[uint64]*mail
	holds   holds
	history []fingerprint // after each commit
	cuts    int           // of the power

	mu     sync.Mutex
	synced store.Mark
}

// fingerprint identifies all holds at a mark. Holds are added and removed by xor.
type fingerprint struct {
	mark store.Mark
	sum  uint64
}

var seed = maphash.MakeSeed()

func sumHold(h hold, deliveries int) uint64 {
	return maphash.Comparable(seed, struct {
		hold
		int
	}{h, deliveries})
}

func sumHolds(all holds) uint64 {
	sum := uint64(0)
	for h, n := range all {
		sum ^= sumHold(h, n)
	}
	return sum
}

func newUser(t testing.TB, seed uint64) *user {
	return &user{
		t:       t,
		rng:     rand.New(rand.NewPCG(seed, 1)),
		noise:   rand.NewChaCha8([32]byte{byte(seed)}),
		mails:   make(map[uint64]*mail),
		holds:   make(holds),
		history: []fingerprint{{}},
	}
}

// open opens a store for the user, who continues with what is in it.
func (u *user) open(fs store.FS, o store.Options) {
	u.t.Helper()
	r, err := u.tryOpen(fs, o)
	if err != nil {
		u.t.Fatalf("open: %v", err)
	}
	u.adopt(r)
}

// tryOpen opens a store that the user has to adopt afterwards.
func (u *user) tryOpen(fs store.FS, o store.Options) (*recovered, error) {
	notify := o.Synced
	o.Synced = func(m store.Mark) {
		u.mu.Lock()
		u.synced = m
		u.mu.Unlock()
		if notify != nil {
			notify(m)
		}
	}
	u.mu.Lock()
	u.synced = 0
	u.mu.Unlock()
	return recoverFrom(fs, o, nil)
}

// durable is the last mark that the store has reported.
func (u *user) durable() store.Mark {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.synced
}

// step does something at random and returns its mark.
func (u *user) step() store.Mark {
	var b store.Batch
	switch n := u.rng.IntN(20); {
	case n < 10 && len(u.live) < 60 || len(u.live) == 0:
		u.publish(&b, u.randomBody())
	case n < 15:
		u.settle(&b, u.anyMail())
	case n < 17: // dead-letter: replaces one message by another
		u.settle(&b, u.anyMail())
		u.publish(&b, u.randomBody())
	case n < 18: // settle many
		for range u.rng.IntN(8) {
			if len(u.live) > 0 {
				u.settle(&b, u.anyMail())
			}
		}
	case n < 19:
		u.count(&b, u.anyMail(), u.rng.IntN(300))
	default:
		u.die(&b, u.anyMail(), store.Death(1+u.rng.IntN(4)))
	}
	return u.commit(&b)
}

func (u *user) randomBody() int {
	switch u.rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return u.rng.IntN(3000)
	}
	return u.rng.IntN(200)
}

func (u *user) anyMail() *mail { return u.live[u.rng.IntN(len(u.live))] }

func (u *user) publish(b *store.Batch, size int) *mail {
	body := make([]byte, size)
	u.noise.Read(body)
	m := &mail{
		content: store.Content{
			Exchange:   fmt.Sprintf("exchange-%d", u.rng.IntN(10)),
			Key:        fmt.Sprintf("key.%d", u.rng.IntN(1000)),
			Properties: bytes.Repeat([]byte{byte(size)}, u.rng.IntN(30)),
			Body:       body,
		},
		meta: store.Meta{
			Enqueued:    u.rng.Int64N(1 << 42),
			TTL:         u.rng.Int64N(1000) - 1,
			Priority:    uint8(u.rng.IntN(256)),
			Persistent:  u.rng.IntN(2) == 0,
			HasPriority: true,
		},
	}
	for _, i := range u.rng.Perm(len(u.queues))[:1+u.rng.IntN(len(u.queues))] {
		m.queues = append(m.queues, u.queues[i])
	}
	b.Publish(&m.Message, m.content, m.meta, m.queues)
	u.live = append(u.live, m)
	return m
}

// settle settles a message for one of its queues, if it was committed before.
func (u *user) settle(b *store.Batch, m *mail) {
	if !m.Stored() {
		return
	}
	q := m.queues[u.rng.IntN(len(m.queues))]
	b.Settle(&m.Message, q)
	u.forget(m, q)
}

func (u *user) forget(m *mail, q store.QueueID) {
	delete(u.holds, hold{m.Seq(), q})
	m.queues = slices.DeleteFunc(slices.Clone(m.queues), func(other store.QueueID) bool { return other == q })
	if len(m.queues) == 0 {
		u.live = slices.DeleteFunc(u.live, func(other *mail) bool { return other == m })
	}
}

func (u *user) count(b *store.Batch, m *mail, n int) {
	if !m.Stored() {
		return
	}
	q := m.queues[u.rng.IntN(len(m.queues))]
	b.Count(&m.Message, q, n)
	h := hold{m.Seq(), q}
	u.holds[h] = u.holds[h]&^(1<<deathShift-1) | n
	if until := u.rng.IntN(1 << delayShift); until%2 == 1 {
		b.Delay(&m.Message, q, int64(until))
		u.holds[h] |= until << delayShift
	}
}

func (u *user) die(b *store.Batch, m *mail, d store.Death) {
	if !m.Stored() {
		return
	}
	q := m.queues[u.rng.IntN(len(m.queues))]
	copied := u.queues[:u.rng.IntN(len(u.queues)+1)]
	b.Die(&m.Message, q, d, copied...)
	h := hold{m.Seq(), q}
	before := u.holds[h]
	u.holds[h] = state(store.Hold{Death: d, Copied: copied}) | before&(1<<deathShift-1)
	if store.Death(before>>deathShift) == d {
		u.holds[h] |= before
	}
}

func (u *user) commit(b *store.Batch) store.Mark {
	mark := u.store.Commit(b)
	for _, m := range slices.Backward(u.live) {
		if u.mails[m.Seq()] == m {
			break
		}
		u.mails[m.Seq()] = m
		for _, q := range m.queues {
			u.holds[hold{m.Seq(), q}] = 0
		}
	}
	if mark > 0 {
		u.history = append(u.history, fingerprint{mark, sumHolds(u.holds)})
	}
	return mark
}

// wait returns when a mark is durable.
func (u *user) wait(mark store.Mark) {
	u.t.Helper()
	if err := u.store.Wait(context.Background(), mark); err != nil {
		u.t.Fatalf("Wait(%d): %v", mark, err)
	}
}

func (u *user) close() {
	u.t.Helper()
	if err := u.store.Close(); err != nil {
		u.t.Fatalf("Close: %v", err)
	}
}

// recovered is what a store returned when it was opened again.
type recovered struct {
	holds holds
	mails map[uint64]*mail
	order []uint64
	clean bool
	store *store.Store
}

// recoverFrom opens a directory and reads everything in it. The caller closes the store.
func recoverFrom(fs store.FS, o store.Options, queues map[store.QueueID]bool) (*recovered, error) {
	s, err := store.Open(fs, o)
	if err != nil {
		return nil, err
	}
	r := &recovered{holds: make(holds), mails: make(map[uint64]*mail), store: s}
	byMessage := make(map[*store.Message]*mail)
	err = s.Recover(queues,
		func(f store.Found) *store.Message {
			m := &mail{meta: f.Meta}
			byMessage[&m.Message] = m
			return &m.Message
		},
		func(m *store.Message, h store.Hold) {
			r.holds[hold{m.Seq(), h.Queue}] = state(h)
			if r.mails[m.Seq()] == nil {
				r.order = append(r.order, m.Seq())
			}
			r.mails[m.Seq()] = byMessage[m]
		})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for seq, m := range r.mails {
		if m.content, err = s.Read(&m.Message); err != nil {
			return nil, errors.Join(fmt.Errorf("read message %d: %w", seq, err), s.Close())
		}
	}
	if got := s.Stats().Messages; got != len(r.mails) {
		return nil, errors.Join(fmt.Errorf("the books say %d messages, recovered were %d", got, len(r.mails)), s.Close())
	}
	r.clean = s.Clean()
	return r, nil
}

// verify compares what was recovered with what the user did. It must be everything up to some commit,
// which is not before the last commit that was reported as durable.
func (u *user) verify(r *recovered, durable store.Mark) error {
	if !slices.IsSorted(r.order) {
		return fmt.Errorf("recovered in order %v, want ascending", r.order)
	}
	for seq, got := range r.mails {
		want := u.mails[seq]
		if want == nil {
			return fmt.Errorf("recovered message %d, which was never published", seq)
		}
		if !equalContent(got.content, want.content) {
			return fmt.Errorf("message %d: got content %+v, want %+v", seq, got.content, want.content)
		}
		if got.meta != want.meta || got.Meta() != want.meta {
			return fmt.Errorf("message %d: got meta %+v and %+v, want %+v", seq, got.meta, got.Meta(), want.meta)
		}
	}
	sum := sumHolds(r.holds)
	for _, f := range slices.Backward(u.history) {
		if f.sum == sum {
			return nil
		}
		if f.mark <= durable {
			break
		}
	}
	return fmt.Errorf("recovered %d claims, which are not those after any commit from %d on; at the end there were %d", len(r.holds), durable, len(u.holds))
}

func equalContent(a, b store.Content) bool {
	return a.Exchange == b.Exchange && a.Key == b.Key && bytes.Equal(a.Properties, b.Properties) && bytes.Equal(a.Body, b.Body)
}

// mustRecover opens a directory, compares it with what the user did, and checks it after closing.
func (u *user) mustRecover(fs store.FS, o store.Options, durable store.Mark) {
	u.t.Helper()
	r, err := recoverFrom(fs, o, nil)
	if err != nil {
		u.t.Fatalf("recover: %v", err)
	}
	if err := u.verify(r, durable); err != nil {
		u.t.Fatal(err)
	}
	if err := r.store.Close(); err != nil {
		u.t.Fatalf("Close: %v", err)
	}
	mustCheck(u.t, fs, len(r.mails))
}

// mustCheck fails unless the directory is sound and has this number of messages.
func mustCheck(t testing.TB, fs store.FS, messages int) {
	t.Helper()
	report, err := store.Check(t.Context(), fs)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	if len(report.Damage) > 0 || report.Messages != messages || report.Torn > 0 || !report.Clean {
		t.Fatalf("Check: got %+v, want %d messages, clean, no damage", report, messages)
	}
}

// adopt makes the user continue with a store that was opened again.
func (u *user) adopt(r *recovered) {
	u.store = r.store
	u.live = u.live[:0]
	for _, seq := range r.order {
		m := r.mails[seq]
		for h := range r.holds {
			if h.seq == seq {
				m.queues = append(m.queues, h.queue)
			}
		}
		slices.Sort(m.queues)
		u.mails[seq] = m
		u.live = append(u.live, m)
	}
	u.holds = maps.Clone(r.holds)
	u.history = []fingerprint{{0, sumHolds(u.holds)}}
	for len(u.queues) < 4 {
		u.queues = append(u.queues, u.store.NewQueue())
	}
}
