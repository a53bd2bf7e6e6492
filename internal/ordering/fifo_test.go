package ordering

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A fifo has the same elements as a plain slice, whatever is done to it.
func TestFIFO(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var f fifo[int]
	var want []int
	for i := range 20_000 {
		switch n := random.IntN(20); {
		case n < 9:
			f.add(i)
			want = append(want, i)
		case n < 17 && len(want) > 0:
			if got := f.first(); got != want[0] {
				t.Fatalf("step %d: the first is %d, want %d", i, got, want[0])
			}
			if got := f.take(); got != want[0] {
				t.Fatalf("step %d: took %d, want %d", i, got, want[0])
			}
			want = want[1:]
		case n == 18:
			odd := func(v int) bool { return v%7 == i%7 }
			f.remove(odd)
			want = slices.DeleteFunc(slices.Clone(want), odd)
		case n == 19:
			f.putFirst(-i, i)
			want = append([]int{-i, i}, want...)
		}
		if f.len() != len(want) || !slices.Equal(f.all[f.taken:], want) {
			t.Fatalf("step %d: got %v, want %v", i, f.all[f.taken:], want)
		}
	}
}
