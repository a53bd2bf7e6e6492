package boxfaults

import (
	"fmt"
	"slices"
	"testing"
)

// truth is what the database has at the end.
type truth struct {
	committed []string
	orders    map[string][]string // those with an order key, in the order of their commits
	effects   map[string]int
	handled   []string // effects in their order, if they are to be in that of the commits for each order key
}

// missing is how many committed messages have not gone all the way yet.
func (b *books) missing(is truth) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range is.committed {
		if b.published[id] == 0 || b.produced[id] == nil || is.effects[id] == 0 {
			n++
		}
	}
	return n
}

// maxFaults is how many faults of one kind an audit describes.
const maxFaults = 10

// audit compares the books with the database. It counts each message once in each field of the report.
func (b *books) audit(t testing.TB, is truth) report {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	r := report{committed: len(is.committed), published: len(b.published), rolledBack: len(b.rolled)}
	wrong := func(count *int, format string, args ...any) {
		t.Helper()
		if *count++; *count <= maxFaults {
			t.Errorf(format, args...)
		}
	}
	there := make(map[string]bool, len(is.committed))
	for _, id := range is.committed {
		there[id] = true
		switch {
		case b.published[id] == 0:
			wrong(&r.unpublished, "%s was committed and not published", id)
		case is.effects[id] == 0:
			wrong(&r.withoutEffect, "%s was published and has no effect", id)
		case b.produced[id] == nil:
			wrong(&r.withoutSecond, "%s had its effect, and the message that its handler published is missing", id)
		}
	}
	for id := range b.confirmed {
		if !there[id] {
			wrong(&r.dbLost, "the database confirmed the commit of %s, and does not have it", id)
		}
	}
	for _, id := range b.rolled {
		if there[id] {
			wrong(&r.invented, "%s was rolled back, and the database has it", id)
		}
	}
	for id, n := range b.published {
		r.copies += n - 1
		if !there[id] {
			wrong(&r.invented, "%s was published and never committed", id)
		}
	}
	for id, seconds := range b.produced {
		for _, n := range seconds {
			r.copies += n - 1
		}
		if is.effects[id] == 0 && (there[id] || b.published[id] == 0) {
			wrong(&r.invented, "the handler's message for %s was published, and the effect was never committed", id)
		}
	}
	for id, n := range is.effects {
		switch seconds := len(b.produced[id]); {
		case !there[id] && b.published[id] == 0 && b.produced[id] == nil:
			wrong(&r.invented, "%s had an effect and was never committed", id)
		case n > 1:
			wrong(&r.effectTwice, "%s had its effect %d times", id, n)
		case seconds > 1:
			wrong(&r.effectTwice, "the handler has published %d different messages for %s", seconds, id)
		}
	}
	for _, id := range b.repeated {
		r.repeated++
		t.Logf("%s was sent twice by one relay", id)
	}
	b.auditOrder(is, func(format string, args ...any) { wrong(&r.overtaken, format, args...) })
	is.auditEffects(func(format string, args ...any) { wrong(&r.disordered, format, args...) })
	return r
}

// auditOrder reports messages that arrived before one of the same order key that was committed before them.
func (b *books) auditOrder(is truth, wrong func(format string, args ...any)) {
	place := make(map[string]int, len(b.arrivals))
	for i, id := range b.arrivals {
		place[id] = i
	}
	for key, ids := range is.orders {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return b.published[id] == 0 })
		for i := 1; i < len(ids); i++ {
			if place[ids[i]] < place[ids[i-1]] {
				wrong("%s: %s arrived before %s, which was committed before it", key, ids[i], ids[i-1])
			}
		}
	}
}

// auditEffects reports effects that came before one of the same order key that was committed before them.
func (is truth) auditEffects(wrong func(format string, args ...any)) {
	place := make(map[string]int, len(is.handled))
	for i, id := range is.handled {
		place[id] = i
	}
	if len(is.handled) == 0 {
		return
	}
	for key, ids := range is.orders {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return is.effects[id] == 0 })
		for i := 1; i < len(ids); i++ {
			if place[ids[i]] < place[ids[i-1]] {
				wrong("%s: %s had its effect before %s, which was committed before it", key, ids[i], ids[i-1])
			}
		}
	}
}

// An auditor that finds nothing is of no use.
func TestAudit(t *testing.T) {
	b := newBooks()
	for _, id := range []string{"fine", "unpublished", "without effect", "without second", "twice", "two seconds", "gone"} {
		b.commit(id)
	}
	b.rollback("rolled back")
	for _, id := range []string{"fine", "fine", "without effect", "without second", "twice", "two seconds", "rolled back"} {
		b.publish(id, "")
	}
	for id, second := range map[string]string{"fine": "1", "twice": "2", "two seconds": "3", "without effect": "4", "rolled back": "5"} {
		b.produce(id, second, "1-0")
	}
	b.produce("fine", "1", "1-0")
	b.produce("two seconds", "6", "2-0")
	is := truth{
		committed: []string{"fine", "unpublished", "without effect", "without second", "twice", "two seconds"},
		orders:    map[string][]string{"a": {"unpublished", "fine", "unpublished", "twice"}, "b": {"twice", "without effect"}},
		effects:   map[string]int{"fine": 1, "twice": 2, "two seconds": 1, "unpublished": 1, "without second": 1, "rolled back": 1},
		handled:   []string{"fine", "unpublished", "two seconds", "without second", "twice", "rolled back"},
	}
	if n := b.missing(is); n != 3 {
		t.Errorf("missing: got %d, want 3", n)
	}
	if n := b.underway(); n != 3 {
		t.Errorf("underway: got %d, want 3: unpublished, without second, gone", n)
	}
	found := &finder{TB: t}
	got := b.audit(found, is)
	want := report{
		committed: 6, published: 6, unpublished: 1, withoutEffect: 1, withoutSecond: 1, invented: 2, effectTwice: 2, overtaken: 1, disordered: 1, dbLost: 1,
		rolledBack: 1, copies: 2, repeated: 1,
	}
	if got != want {
		t.Errorf("report: got %+v, want %+v", got, want)
	}
	if len(found.faults) != 10 {
		t.Errorf("faults: got %q, want ten", found.faults)
	}
}

// finder keeps the errors that an audit reports.
type finder struct {
	testing.TB
	faults []string
}

func (f *finder) Errorf(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}
