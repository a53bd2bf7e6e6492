package queue

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAgainstModel does the same random steps with a queue and with a model of it.
func TestAgainstModel(t *testing.T) {
	runs := uint64(60)
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		r := newRun(t, seed)
		for range 300 {
			r.step()
			if r.compare(); t.Failed() {
				t.Fatalf("seed %d, a %s queue; the last steps were:\n%s", seed, r.model.kind, strings.Join(r.history[max(0, len(r.history)-15):], "\n"))
			}
		}
		r.finish()
		if t.Failed() {
			t.Fatalf("seed %d, a %s queue, when it was deleted", seed, r.model.kind)
		}
	}
}

// run is a queue and its model in one history.
type run struct {
	*stage
	rng     *rand.Rand
	model   *model
	takers  []*pair
	gets    []Item // taken by Get and unacked
	history []string
	sent    int
}

// pair is a consumer and its model.
type pair struct {
	*taker
	client *client
}

func newRun(t *testing.T, seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := plan{kind: Classic, singleActive: rng.IntN(3) == 0, budget: int64(rng.IntN(4000))}
	if seed%2 == 1 {
		p.kind = Quorum
	} else if rng.IntN(2) == 0 {
		p.maxPriority = uint8(1 + rng.IntN(4))
	}
	r := &run{stage: newStage(t, p), rng: rng}
	r.openLog()
	r.model = &model{kind: p.kind, maxPriority: int(p.maxPriority), single: p.singleActive, settings: Unlimited(), now: r.now, used: r.now, unacked: make(map[string]entry)}
	r.restore()
	return r
}

// restore begins with messages of an earlier broker.
func (r *run) restore() {
	for range r.rng.IntN(5) {
		p := r.parcel()
		age, count := time.Duration(r.rng.IntN(20))*time.Millisecond, uint32(r.rng.IntN(3))
		r.q.Restore(r.message(p), p.ttl, age, Returns{Count: count}, count > 0)
		r.model.arrivals++
		e := entry{name: p.name, size: int64(p.size), priority: min(int(p.priority), r.model.maxPriority), arrival: r.model.arrivals, redelivered: count > 0, count: count}
		if p.ttl >= 0 {
			e.expires = r.now + p.ttl - age
		}
		r.model.put(e)
	}
	r.after(r.q.Pump())
	r.model.pump()
}

func (r *run) parcel() parcel {
	r.sent++
	p := parcel{name: fmt.Sprint("m", r.sent), size: r.rng.IntN(300), priority: uint8(r.rng.IntN(6)), ttl: -1, stored: r.rng.IntN(3) > 0}
	if r.rng.IntN(3) == 0 {
		p.ttl = time.Duration(r.rng.IntN(30)) * time.Millisecond
	}
	return p
}

// note records a step before it is done.
func (r *run) note(format string, args ...any) {
	r.history = append(r.history, fmt.Sprintf(format, args...))
}

func (r *run) step() {
	r.t.Helper()
	const most = 60 // few enough that the queue never waits for dead letters to be taken
	switch n := r.rng.IntN(100); {
	case n < 35 && len(r.model.ready) < most:
		r.publish()
	case n < 40:
		r.subscribe()
	case n < 43:
		r.unsubscribe()
	case n < 55:
		r.resume()
	case n < 65:
		r.answer("settle", func(items []Item, names []string) {
			r.q.Settle(items)
			r.model.settle(names)
		})
	case n < 69:
		r.answer("kill", func(items []Item, names []string) {
			r.after(r.q.Kill(items, true))
			r.model.kill(names)
		})
	case n < 80:
		asked, failed := r.rng.IntN(2) == 0, r.rng.IntN(3) > 0
		r.answer(fmt.Sprintf("return (asked %t, failed %t)", asked, failed), func(items []Item, names []string) {
			r.after(r.q.Return(items, asked, failed))
			r.model.giveBack(names, asked, failed)
		})
	case n < 85:
		r.fetch()
	case n < 86:
		r.purge()
	case n < 89:
		r.configure()
	case n < 95:
		r.tick()
	case n < 96:
		r.note("touch")
		r.q.Touch()
		r.model.used = r.model.now
	default:
		r.takeDead()
	}
}

func (r *run) publish() {
	p := r.parcel()
	r.note("push %s, %d bytes, priority %d, ttl %s", p.name, p.size, p.priority, p.ttl)
	admits := r.q.Admits(p.size)
	if want := r.model.admits(p.size); admits != want {
		r.t.Errorf("admits %d bytes: got %t, want %t", p.size, admits, want)
	}
	if admits {
		r.send(p)
		r.model.push(p.name, p.size, p.priority, p.ttl)
		return
	}
	want := r.model.settings.Overflow == RejectPublishDLX && r.model.settings.HasDeadLetter
	if got := r.q.RefusesToDeadLetter(); got != want {
		r.t.Errorf("a refused message becomes a dead letter: got %t, want %t", got, want)
	}
	if want {
		r.after(r.q.Refuse(r.message(p)))
		r.model.die(entry{name: p.name}, MaxLength)
	}
}

func (r *run) subscribe() {
	k := &taker{stage: r.stage, room: r.rng.IntN(3)}
	k.Consumer = Consumer{Sink: k, Tag: fmt.Sprint("c", len(r.history)), NoAck: r.rng.IntN(4) == 0, Exclusive: r.rng.IntN(8) == 0, Priority: r.rng.IntN(3) - 1}
	c := &client{tag: k.Tag, priority: k.Priority, exclusive: k.Exclusive, noAck: k.NoAck, room: k.room}
	r.note("subscribe %+v", *c)
	got, want := r.q.Subscribe(&k.Consumer), r.model.subscribe(c)
	if got != want {
		r.t.Errorf("subscribe: got %t, want %t", got, want)
	}
	if got {
		r.takers = append(r.takers, &pair{k, c})
	}
}

// somebody returns a random consumer, or nil.
func (r *run) somebody() *pair {
	there := slices.DeleteFunc(slices.Clone(r.takers), func(p *pair) bool { return !slices.Contains(r.model.consumers, p.client) })
	if len(there) == 0 {
		return nil
	}
	return there[r.rng.IntN(len(there))]
}

func (r *run) unsubscribe() {
	p := r.somebody()
	if p == nil {
		return
	}
	r.note("unsubscribe %s", p.Tag)
	fx, left, ok := r.q.Unsubscribe(&p.Consumer)
	r.after(fx)
	r.model.unsubscribe(p.client)
	if !ok || left != len(r.model.consumers) {
		r.t.Errorf("unsubscribe: got %t with %d left, want true with %d", ok, left, len(r.model.consumers))
	}
	if _, left, ok := r.q.Unsubscribe(&p.Consumer); ok || left != len(r.model.consumers) {
		r.t.Errorf("unsubscribe again: got %t with %d left, want false with %d", ok, left, len(r.model.consumers))
	}
	r.after(r.q.Resume(&p.Consumer)) // too late
}

func (r *run) resume() {
	p := r.somebody()
	if p == nil {
		return
	}
	more := r.rng.IntN(4)
	r.note("resume %s with %d more", p.Tag, more)
	p.room += more
	p.client.room += more
	r.after(r.q.Resume(&p.Consumer))
	r.model.resume(p.client)
}

// answer settles or returns unacked messages.
func (r *run) answer(what string, do func([]Item, []string)) {
	holds := &r.gets
	if len(r.takers) > 0 && r.rng.IntN(4) > 0 {
		holds = &r.takers[r.rng.IntN(len(r.takers))].held
	}
	if len(*holds) == 0 {
		return
	}
	from := r.rng.IntN(len(*holds))
	to := from + 1 + r.rng.IntN(len(*holds)-from)
	items := slices.Clone((*holds)[from:to])
	*holds = slices.Delete(*holds, from, to)
	var names []string
	for _, it := range items {
		names = append(names, r.names[it.Message])
	}
	r.note("%s %s", what, names)
	do(items, names)
}

func (r *run) fetch() {
	noAck := r.rng.IntN(3) == 0
	r.note("get, no ack %t", noAck)
	it, found, left := r.get(noAck)
	want := r.model.get(noAck)
	if got := r.names[it.Message]; found != (want != "") || got != want || left != len(r.model.ready) {
		r.t.Errorf("get: got %q with %d left, want %q with %d", got, left, want, len(r.model.ready))
	}
	if found && !noAck {
		r.gets = append(r.gets, it)
	}
}

func (r *run) purge() {
	r.note("purge")
	var got []string
	purged := r.q.Purge()
	for lot := purged.Next(); len(lot) > 0; lot = purged.Next() {
		for _, m := range lot {
			got = append(got, r.names[m])
		}
	}
	slices.Sort(got[min(len(r.model.ready), len(got)):]) // delayed messages are purged in any order
	if want := r.model.purge(); !slices.Equal(got, want) {
		r.t.Errorf("purge: got %s, want %s", got, want)
	}
}

func (r *run) configure() {
	s := Unlimited()
	if r.rng.IntN(3) == 0 {
		s.TTL = time.Duration(r.rng.IntN(20)) * time.Millisecond
	}
	if r.rng.IntN(3) == 0 {
		s.Expires = time.Duration(1+r.rng.IntN(100)) * time.Millisecond
	}
	if r.rng.IntN(2) == 0 {
		s.MaxLength = int64(r.rng.IntN(20))
	}
	if r.rng.IntN(3) == 0 {
		s.MaxBytes = int64(r.rng.IntN(3000))
	}
	if r.rng.IntN(2) == 0 {
		s.DeliveryLimit = r.rng.IntN(3)
	}
	s.Overflow = []Overflow{DropHead, DropHead, RejectPublish, RejectPublishDLX}[r.rng.IntN(4)]
	s.HasDeadLetter = r.rng.IntN(2) == 0
	if r.model.kind == Quorum && r.rng.IntN(2) == 0 {
		s.Retry = Retry{Type: []RetryType{RetryAll, RetryFailed, RetryReturned}[r.rng.IntN(3)],
			Min: time.Duration(1+r.rng.IntN(20)) * time.Millisecond, Max: time.Duration(1+r.rng.IntN(20)) * time.Millisecond}
	}
	r.note("configure %+v", s)
	r.after(r.q.Configure(s))
	r.model.configure(s)
}

// tick advances the time, and sometimes does not wake the queue.
func (r *run) tick() {
	passed := time.Duration(r.rng.IntN(12)) * time.Millisecond
	awake := r.rng.IntN(4) > 0
	r.note("%s pass, awake %t", passed, awake)
	r.now += passed
	r.model.now = r.now
	if !awake {
		return
	}
	fx, expired := r.q.Tick()
	r.after(fx)
	if want := r.model.expired(); expired != want {
		r.t.Errorf("expired: got %t, want %t", expired, want)
	}
	if expired {
		r.model.used = r.now
	}
	r.model.pump()
}

func (r *run) takeDead() {
	r.note("take the dead")
	if got, want := r.takeAllDead(), r.model.takeDead(); !slices.Equal(got, want) {
		r.t.Errorf("dead letters: got %q, want %q", got, want)
	}
}

// compare compares the queue with its model.
func (r *run) compare() {
	r.t.Helper()
	m, st := r.model, r.q.Status()
	r.wantBooks(len(m.ready), len(m.unacked), m.bytes(), m.heldBytes())
	if !slices.Equal(r.made, m.made) {
		r.t.Errorf("deliveries: got %q, want %q", r.made, m.made)
	}
	r.made, m.made = nil, nil
	var got, want []string
	for _, it := range r.q.Peek(1 << 20) {
		got = append(got, fmt.Sprintf("%s (redelivered %t, count %d, until %s)", r.names[it.Message], it.Redelivered, it.Count, it.Expires))
	}
	for _, e := range m.ready {
		want = append(want, fmt.Sprintf("%s (redelivered %t, count %d, until %s)", e.name, e.redelivered, e.count, e.expires))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("ready:\n got %q\nwant %q", got, want)
	}
	got, want = nil, nil
	for _, it := range r.q.Delayed() {
		got = append(got, fmt.Sprintf("%s (count %d, until %s)", r.names[it.Message], it.Count, it.Expires))
	}
	for _, e := range slices.SortedStableFunc(slices.Values(m.delayed), func(a, b entry) int { return cmp.Compare(a.until, b.until) }) {
		want = append(want, fmt.Sprintf("%s (count %d, until %s)", e.name, e.count, e.expires))
	}
	if !slices.Equal(got, want) || st.Delayed != len(want) {
		r.t.Errorf("delayed:\n got %q\nwant %q", got, want)
	}
	if r.due != (len(m.dead) > 0) {
		r.t.Errorf("dead letters are due: got %t, want %t", r.due, len(m.dead) > 0)
	}
	if st.Totals != m.totals {
		r.t.Errorf("totals: got %+v, want %+v", st.Totals, m.totals)
	}
	r.compareConsumers(st)
	if at := r.q.timer.at; at != m.deadline() {
		r.t.Errorf("the alarm is set to %s, want %s", at, m.deadline())
	}
	r.compareMemory()
}

func (r *run) compareConsumers(st Status) {
	r.t.Helper()
	m := r.model
	var got, want []string
	for _, c := range st.Consumers {
		got = append(got, c.Tag)
	}
	for _, c := range m.consumers {
		want = append(want, c.tag)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("consumers: got %q, want %q", got, want)
	}
	active, wantActive := "", ""
	if st.Active != nil {
		active = st.Active.Tag
	}
	if m.active != nil {
		wantActive = m.active.tag
	}
	if active != wantActive {
		r.t.Errorf("active consumer: got %q, want %q", active, wantActive)
	}
	if waiting := len(m.line) > 0 && (!m.single || slices.Contains(m.line, m.active)); st.Waiting != waiting {
		r.t.Errorf("somebody waits: got %t, want %t", st.Waiting, waiting)
	}
}

// compareMemory checks that the budget has exactly what is in memory: what is in the queue or unacked.
func (r *run) compareMemory() {
	r.t.Helper()
	var held int64
	for m := range r.names {
		if c := m.Content(); c != nil {
			held += weight(c)
		}
		if m.refs.Load() == 0 {
			if m.Content() != nil {
				r.t.Errorf("%s has left the queue and is still in memory", r.names[m])
			}
			delete(r.names, m)
			continue
		}
		held += overhead + placeOverhead
	}
	if used := r.budget.Used(); used != held {
		r.t.Errorf("bytes in memory: got %d, want %d", used, held)
	}
	if live, want := len(r.names), len(r.model.ready)+len(r.model.delayed)+len(r.model.unacked)+len(r.model.dead); live != want {
		r.t.Errorf("messages that some queue holds: got %d, want %d", live, want)
	}
}

// finish deletes the queue and settles or returns what is still unacked.
func (r *run) finish() {
	r.t.Helper()
	r.takeDead()
	messages, consumers, ok := r.q.Delete(false, false)
	if !ok || messages != len(r.model.ready) || len(consumers) != len(r.model.consumers) {
		r.t.Errorf("delete: got %t with %d messages and %d consumers, want true with %d and %d", ok, messages, len(consumers), len(r.model.ready), len(r.model.consumers))
	}
	for i, p := range r.takers {
		switch i % 3 {
		case 0:
			r.q.Settle(p.held)
		case 1:
			r.after(r.q.Kill(p.held, true))
		default:
			r.after(r.q.Return(p.held, true, true))
		}
	}
	r.q.Settle(r.gets)
	r.send(parcel{name: "late", ttl: -1})
	r.wantBooks(0, 0, 0, 0)
	r.wantDead()
	if used := r.budget.Used(); used != 0 {
		r.t.Errorf("bytes in memory at the end: got %d, want 0", used)
	}
	if at := r.q.timer.at; at != 0 {
		r.t.Errorf("the alarm of a deleted queue is set to %s", at)
	}
}
