package boxfaults

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// report is what an audit has found.
type report struct {
	committed, published        int // different messages
	lost, invented, effectTwice int
	overtaken                   int // of those with a key
	rolledBack, repeated        int
	kills                       int
}

func (r *report) add(o report) {
	r.committed += o.committed
	r.published += o.published
	r.lost += o.lost
	r.invented += o.invented
	r.effectTwice += o.effectTwice
	r.overtaken += o.overtaken
	r.rolledBack += o.rolledBack
	r.repeated += o.repeated
	r.kills += o.kills
}

func (r *report) String() string {
	return fmt.Sprintf("committed=%d published=%d lost=%d invented=%d effects-twice=%d kills=%d overtaken=%d rolled-back=%d delivered-again=%d",
		r.committed, r.published, r.lost, r.invented, r.effectTwice, r.kills, r.overtaken, r.rolledBack, r.repeated)
}

// ledger is the sum of all reports.
type ledger struct {
	mu     sync.Mutex
	sum    report
	audits int
}

func (l *ledger) add(r report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.add(r)
	l.audits++
}

// print prints one line, if there was an audit at all.
func (l *ledger) print() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.audits > 0 {
		fmt.Println(&l.sum)
	}
}

// books keeps what writers were told, and what has come out of the broker.
type books struct {
	mu        sync.Mutex
	confirmed []string // commits that succeeded, as their writer knows
	rolled    []string // transactions that ended without a commit having been asked for
	doubtful  int      // commits of which the writer does not know
	published map[string]int
	arrivals  []string          // what was published, in the order in which each came first
	produced  map[string]string // what the handler has published, by the message that it did so for
	twice     []string          // messages for which the handler has published two
	news      chan struct{}     // closed when something is written down
}

func newBooks() *books {
	return &books{published: make(map[string]int), produced: make(map[string]string), news: make(chan struct{})}
}

func (b *books) write(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.news)
	b.news = make(chan struct{})
}

func (b *books) commit(id string) { b.write(func() { b.confirmed = append(b.confirmed, id) }) }

func (b *books) rollback(id string) { b.write(func() { b.rolled = append(b.rolled, id) }) }

func (b *books) doubt() { b.write(func() { b.doubtful++ }) }

func (b *books) publish(id string) {
	b.write(func() {
		if b.published[id]++; b.published[id] == 1 {
			b.arrivals = append(b.arrivals, id)
		}
	})
}

func (b *books) produce(id, result string) {
	b.write(func() {
		if before := b.produced[id]; before != "" && before != result {
			b.twice = append(b.twice, id)
		}
		b.produced[id] = result
	})
}

// look calls f with the books open, and returns a channel that is closed at the next entry.
func (b *books) look(f func()) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	return b.news
}

// underway is how many messages are known to be committed and have not gone all the way.
func (b *books) underway() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.confirmed) - len(b.produced)
}

// truth is what the database says at the end.
type truth struct {
	committed []string
	orders    map[string][]string // those with a key, by the order of their commits
	effects   map[string]int
}

// missing is how much of what the database says has not come yet.
func (b *books) missing(is truth) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range is.committed {
		if b.published[id] == 0 || b.produced[id] == "" || is.effects[id] == 0 {
			n++
		}
	}
	return n
}

// audit holds the books against the database.
func (b *books) audit(t testing.TB, is truth) report {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	r := report{committed: len(is.committed), published: len(b.published), rolledBack: len(b.rolled)}
	wrong := func(count *int, format string, args ...any) {
		if *count++; *count <= 10 {
			t.Errorf(format, args...)
		}
	}
	there := make(map[string]bool, len(is.committed))
	for _, id := range is.committed {
		there[id] = true
		switch {
		case b.published[id] == 0:
			wrong(&r.lost, "%s was committed and not published", id)
		case is.effects[id] == 0:
			wrong(&r.lost, "%s was published and has no effect", id)
		case b.produced[id] == "":
			wrong(&r.lost, "%s had its effect, and what the handler published with it did not come", id)
		}
	}
	for _, id := range b.confirmed {
		if !there[id] {
			wrong(&r.lost, "%s was committed, and the database does not have it", id)
		}
	}
	for _, id := range b.rolled {
		if there[id] {
			wrong(&r.invented, "%s was rolled back, and the database has it", id)
		}
	}
	for id, n := range b.published {
		r.repeated += n - 1
		if !there[id] {
			wrong(&r.invented, "%s was published and never committed", id)
		}
	}
	for id := range b.produced {
		if is.effects[id] == 0 {
			wrong(&r.invented, "the handler's message for %s came, and its effect is not there", id)
		}
	}
	place := make(map[string]int, len(b.arrivals))
	for i, id := range b.arrivals {
		place[id] = i
	}
	for key, ids := range is.orders {
		for i := 1; i < len(ids); i++ {
			if place[ids[i]] < place[ids[i-1]] {
				wrong(&r.overtaken, "%s: %s came before %s, which was committed before it", key, ids[i], ids[i-1])
			}
		}
	}
	for _, id := range b.twice {
		wrong(&r.effectTwice, "the handler has published two messages for %s", id)
	}
	for id, n := range is.effects {
		switch {
		case !there[id]:
			wrong(&r.invented, "%s had an effect and was never committed", id)
		case n > 1:
			wrong(&r.effectTwice, "%s had its effect %d times", id, n)
		}
	}
	return r
}

// An auditor that finds nothing is of no use.
func TestAudit(t *testing.T) {
	b := newBooks()
	for _, id := range []string{"fine", "unpublished", "without effect", "twice", "gone"} {
		b.commit(id)
	}
	b.rollback("rolled back")
	for _, id := range []string{"fine", "fine", "without effect", "twice", "rolled back"} {
		b.publish(id)
	}
	b.produce("fine", "1")
	b.produce("fine", "1")
	b.produce("twice", "2")
	b.produce("twice", "3")
	is := truth{
		committed: []string{"fine", "unpublished", "without effect", "twice"}, orders: map[string][]string{"a": {"fine", "twice"}, "b": {"twice", "without effect"}},
		effects: map[string]int{"fine": 1, "twice": 2, "unpublished": 1},
	}
	if n := b.missing(is); n != 2 {
		t.Errorf("missing: got %d, want 2", n)
	}
	found := &finder{TB: t}
	got := b.audit(found, is)
	want := report{committed: 4, published: 4, lost: 3, invented: 1, effectTwice: 2, overtaken: 1, rolledBack: 1, repeated: 1}
	if got != want {
		t.Errorf("report: got %v, want %v", &got, &want)
	}
	slices.Sort(found.faults)
	if len(found.faults) != 7 {
		t.Errorf("faults: got %q, want seven", found.faults)
	}
}

// finder keeps what an audit complains of.
type finder struct {
	testing.TB
	faults []string
}

func (f *finder) Errorf(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}
