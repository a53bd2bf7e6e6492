package exchange

import (
	"math"
	"testing"
)

func TestVisited(t *testing.T) {
	o := new(visited)
	for _, round := range []uint32{0, 1, math.MaxUint32 - 1, math.MaxUint32} { // the last one wraps
		o.round = round
		o.begin(3)
		for number := range 3 {
			if !o.first(number) {
				t.Errorf("after round %d: %d was seen before, want its first sight", round, number)
			}
			if o.first(number) {
				t.Errorf("after round %d: %d is seen for the first time again", round, number)
			}
		}
	}
}
