package session

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func tagsOf(deliveries []delivery) (tags []uint64) {
	for _, d := range deliveries {
		tags = append(tags, d.tag)
	}
	return tags
}

// listOf returns a list with deliveries under the tags.
func listOf(tags ...uint64) *unackedList {
	l := &unackedList{}
	for _, tag := range tags {
		l.add(delivery{tag: tag, consumer: &consumer{}})
	}
	return l
}

func (l *unackedList) tags() (tags []uint64) {
	for _, d := range l.entries[l.first:] {
		if !d.settled {
			tags = append(tags, d.tag)
		}
	}
	return tags
}

func TestUnackedListTake(t *testing.T) {
	for _, c := range []struct {
		name     string
		has      []uint64
		tag      uint64
		multiple bool
		ok       bool
		taken    []uint64
		left     []uint64
	}{
		{"one", []uint64{1, 2, 3}, 2, false, true, []uint64{2}, []uint64{1, 3}},
		{"the first", []uint64{1, 2, 3}, 1, false, true, []uint64{1}, []uint64{2, 3}},
		{"the last", []uint64{7}, 7, false, true, []uint64{7}, nil},
		{"behind a gap", []uint64{1, 5, 9}, 9, false, true, []uint64{9}, []uint64{1, 5}},
		{"in a gap", []uint64{1, 5, 9}, 6, false, false, nil, []uint64{1, 5, 9}},
		{"before all", []uint64{5, 9}, 1, false, false, nil, []uint64{5, 9}},
		{"after all", []uint64{5, 9}, 10, false, false, nil, []uint64{5, 9}},
		{"the largest number", []uint64{5, 9}, 1<<64 - 1, false, false, nil, []uint64{5, 9}},
		{"of nothing", nil, 1, false, false, nil, nil},
		{"0 alone is no tag", []uint64{1}, 0, false, false, nil, []uint64{1}},
		{"all up to one", []uint64{1, 5, 9}, 5, true, true, []uint64{1, 5}, []uint64{9}},
		{"all up to one that is not there", []uint64{1, 5, 9}, 6, true, false, nil, []uint64{1, 5, 9}},
		{"all", []uint64{1, 5, 9}, 0, true, true, []uint64{1, 5, 9}, nil},
		{"all of nothing", nil, 0, true, true, nil, nil},
		{"all up to one of nothing", nil, 3, true, false, nil, nil},
	} {
		l := listOf(c.has...)
		taken, ok := l.take(c.tag, c.multiple, nil)
		if ok != c.ok || !slices.Equal(tagsOf(taken), c.taken) || !slices.Equal(l.tags(), c.left) || l.open != len(c.left) {
			t.Errorf("%s: got %d, %t with %d left (%d open), want %d, %t with %d left", c.name, tagsOf(taken), ok, l.tags(), l.open, c.taken, c.ok, c.left)
		}
	}
}

func TestUnackedListTakesOnce(t *testing.T) {
	l := listOf(1, 2, 3)
	l.take(2, false, nil)
	if _, ok := l.take(2, false, nil); ok {
		t.Error("a tag was taken twice")
	}
	if _, ok := l.take(2, true, nil); ok {
		t.Error("all up to a tag that was taken before were taken")
	}
	into := []delivery{{tag: 99}}
	into, _ = l.take(3, true, into)
	if got, want := tagsOf(into), []uint64{99, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("what was taken: got %d, want %d", got, want)
	}
}

func TestUnackedListPutBack(t *testing.T) {
	l := listOf(1, 2, 3, 4, 5)
	first, _ := l.take(4, false, nil)
	second, _ := l.take(2, true, nil)
	l.add(delivery{tag: 6, consumer: &consumer{}})
	l.putBack(append(first, second...))
	if got, want := l.tags(), []uint64{1, 2, 3, 4, 5, 6}; !slices.Equal(got, want) || l.open != 6 {
		t.Errorf("got %d (%d open), want %d", got, l.open, want)
	}
	if taken, ok := l.take(4, false, nil); !ok || taken[0].consumer == nil {
		t.Errorf("what was put back: got %+v, %t, want a delivery to a consumer", taken, ok)
	}
}

// TestUnackedListAtRandom compares with a simple list, and checks that settled entries do not pile up.
func TestUnackedListAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l unackedList
	var open []uint64
	next := uint64(0)
	for i := range 20000 {
		grows := i/1000%2 == 0
		switch n := rng.IntN(10); {
		case n < 4 || grows && n < 8:
			next += 1 + uint64(rng.IntN(2)) // messages that need no answer take tags too
			l.add(delivery{tag: next, consumer: &consumer{}})
			open = append(open, next)
		case n == 9 && rng.IntN(20) == 0 && len(open) > 0:
			at := rng.IntN(len(open))
			taken, ok := l.take(open[at], true, nil)
			if !ok || !slices.Equal(tagsOf(taken), open[:at+1]) {
				t.Fatalf("all up to %d: got %d, %t, want %d", open[at], tagsOf(taken), ok, open[:at+1])
			}
			open = slices.Delete(open, 0, at+1)
		case len(open) > 0:
			at := rng.IntN(len(open))
			if taken, ok := l.take(open[at], false, nil); !ok || len(taken) != 1 || taken[0].tag != open[at] || taken[0].consumer == nil {
				t.Fatalf("%d: got %+v, %t, want it", open[at], taken, ok)
			}
			open = slices.Delete(open, at, at+1)
		}
		if l.open != len(open) {
			t.Fatalf("open: got %d, want %d", l.open, len(open))
		}
		if settled := len(l.entries) - l.open; settled > max(64, l.open) {
			t.Fatalf("the ledger has %d settled entries beside %d that are open", settled, l.open)
		}
	}
	if got := l.tags(); !slices.Equal(got, open) {
		t.Errorf("at the end: got %d, want %d", got, open)
	}
}
