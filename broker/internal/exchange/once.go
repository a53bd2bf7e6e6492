package exchange

// once tells the first sight of a number from later ones. It starts afresh without clearing its memory,
// so that a match costs what it finds and not what the exchange holds.
type once struct {
	rounds []uint32 // by number: the round in which it was seen
	round  uint32
}

// begin forgets all that was seen. Numbers are below n.
func (o *once) begin(n int) {
	if n > len(o.rounds) {
		o.rounds = append(o.rounds, make([]uint32, n-len(o.rounds))...)
	}
	o.round++
	if o.round == 0 { // wrapped: the marks of old rounds would count again
		clear(o.rounds)
		o.round = 1
	}
}

func (o *once) first(number int) bool {
	if o.rounds[number] == o.round {
		return false
	}
	o.rounds[number] = o.round
	return true
}
