package node

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, distinct := range []int{1, few - 1, few, few + 1, few + 2, 10 * few} {
		var s set[int]
		var want []int
		for range 20 * distinct {
			value := rng.IntN(distinct)
			s.add(value)
			if !slices.Contains(want, value) {
				want = append(want, value)
			}
			if !slices.Equal(s.all, want) {
				t.Fatalf("%d values: got %d, want %d", distinct, s.all, want)
			}
		}
	}
}
