package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRound compares the turns with those of a plain list.
func TestRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var r roundRobin
	var line, away []*Consumer
	for i := range 12 {
		away = append(away, &Consumer{Tag: string(rune('a' + i)), Priority: i % 4})
	}
	first := func() *Consumer {
		var first *Consumer
		for _, c := range line {
			if first == nil || c.Priority > first.Priority {
				first = c
			}
		}
		return first
	}
	for range 5000 {
		switch n := rng.IntN(4); {
		case n == 0 && len(away) > 0:
			at := rng.IntN(len(away))
			r.add(away[at])
			line = append(line, away[at])
			away = slices.Delete(away, at, at+1)
		case n == 1 && len(line) > 0:
			at := rng.IntN(len(line))
			r.remove(line[at])
			away = append(away, line[at])
			line = slices.Delete(line, at, at+1)
		case len(line) > 0:
			c := first()
			r.advance()
			at := slices.Index(line, c)
			line = append(slices.Delete(line, at, at+1), c)
		}
		if got, want := r.next(), first(); got != want {
			t.Fatalf("next: got %v, want %v", got, want)
		}
	}
}

// TestRoundForgets: priorities without consumers take no memory.
func TestRoundForgets(t *testing.T) {
	var r roundRobin
	for p := range 1000 {
		c := &Consumer{Priority: p}
		r.add(c)
		r.remove(c)
	}
	if got := len(r.levels); got != 0 {
		t.Errorf("levels: got %d, want 0", got)
	}
}
