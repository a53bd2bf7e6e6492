package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRing pushes and pops across the ends of blocks.
func TestRing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var r ring
	var want []uint64
	next := uint64(0)
	for range 200 {
		for range rng.IntN(2 * blockSize) {
			r.push(Item{place: next})
			want = append(want, next)
			next++
		}
		for range min(rng.IntN(2*blockSize), len(want)) {
			if got := r.pop().place; got != want[0] {
				t.Fatalf("pop: got %d, want %d", got, want[0])
			}
			want = want[1:]
		}
		if rng.IntN(20) == 0 { // empty it
			for len(want) > 0 {
				r.pop()
				want = want[1:]
			}
		}
		if r.n != len(want) {
			t.Fatalf("length: got %d, want %d", r.n, len(want))
		}
		if head := r.head(); (head == nil) != (len(want) == 0) || head != nil && head.place != want[0] {
			t.Fatalf("head: got %v, want the first of %d", head, len(want))
		}
		most := rng.IntN(3 * blockSize)
		var got []uint64
		r.each(most, func(it *Item) { got = append(got, it.place) })
		if !slices.Equal(got, want[:min(most, len(want))]) {
			t.Fatalf("the first %d: got %d, want %d", most, got, want[:min(most, len(want))])
		}
	}
}

// TestRingLetsGo: the ring does not keep removed messages in memory.
func TestRingLetsGo(t *testing.T) {
	var r ring
	for range 3 * blockSize {
		r.push(Item{Message: &Message{}})
	}
	blocks := func() (n int) {
		for b := r.first; b != nil; b = b.next {
			n++
		}
		return n
	}
	for range 3*blockSize - 1 {
		r.pop()
	}
	if got := blocks(); got != 1 {
		t.Errorf("blocks with one item left: got %d, want 1", got)
	}
	r.pop()
	for i, it := range r.first.items {
		if it.Message != nil {
			t.Fatalf("an empty ring keeps a message at %d", i)
		}
	}
}

// TestBacklogOrder: returned items come first, in the order of their places.
func TestBacklogOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for n := range 50 {
		var b backlog
		for i := range 5 {
			b.fresh.push(Item{place: uint64(1000 + i)})
		}
		for _, place := range rng.Perm(n) {
			b.returned.push(Item{place: uint64(place)})
		}
		if b.len() != n+5 {
			t.Errorf("length: got %d, want %d", b.len(), n+5)
		}
		seen := 0
		b.each(n+3, func(*Item) { seen++ })
		if seen != n+3 {
			t.Errorf("each: got %d items, want %d", seen, n+3)
		}
		for i := range n + 5 {
			want := uint64(i)
			if i >= n {
				want = uint64(1000 + i - n)
			}
			if head := b.head().place; head != want {
				t.Fatalf("head %d of %d: got %d, want %d", i, n, head, want)
			}
			if got := b.pop().place; got != want {
				t.Fatalf("pop %d of %d: got %d, want %d", i, n, got, want)
			}
		}
		if b.len() != 0 || b.head() != nil {
			t.Errorf("an empty backlog has %d items", b.len())
		}
	}
}
