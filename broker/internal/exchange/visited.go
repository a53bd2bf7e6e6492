package exchange

// visited remembers which numbers were visited in a round. A new round does not clear the memory, so
// that the cost of a match depends on what it finds, not on the size of the exchange.
type visited struct {
	rounds []uint32 // by number: the last round in which it was visited
	round  uint32
}

// begin starts a round for numbers below n.
func (v *visited) begin(n int) {
	if n > len(v.rounds) {
		v.rounds = append(v.rounds, make([]uint32, n-len(v.rounds))...)
	}
	v.round++
	if v.round == 0 { // it wrapped: numbers of old rounds would count as visited
		clear(v.rounds)
		v.round = 1
	}
}

// first reports whether this is the first visit of a number in this round.
func (v *visited) first(number int) bool {
	first := v.rounds[number] != v.round
	v.rounds[number] = v.round
	return first
}
