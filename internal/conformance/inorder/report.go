package inorder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Breach is a promise that was not kept.
type Breach string

// The breaches.
const (
	OutOfOrder Breach = "out of order"
	TwoAtOnce  Breach = "two at once"
	Repeated   Breach = "repeated"
	HeldUp     Breach = "other keys held up"
	Lost       Breach = "lost"
	Left       Breach = "left in the held queue"
)

// Report is what an audit has found.
type Report struct {
	Seed      uint64
	Keys      int
	Confirmed int
	Lost      int
	Repeats   int // runs for messages that were over
	Late      int // of these, those for which a later message of the key was over, too
	MostLate  int // of these, in one tenure
	Overlaps  int // two messages of a key at once in two processes, because of a fault
	Takeovers int
	Faults    int
	Stubborn  int // messages that have failed until others were handled
	Breaches  map[Breach]int
	Examples  []string // of repeats

	texts []string // of breaches
}

// maxTexts is how many breaches of a kind are described.
const maxTexts = 20

func (r *Report) breach(b Breach, format string, args ...any) {
	if r.Breaches[b]++; r.Breaches[b] <= maxTexts {
		r.texts = append(r.texts, string(b)+": "+fmt.Sprintf(format, args...))
	}
}

// OK reports whether all promises were kept.
func (r Report) OK() bool { return len(r.Breaches) == 0 }

// Faulty describes the breaches.
func (r Report) Faulty() string { return strings.Join(r.texts, "\n") }

// Line is the report in one line.
func (r Report) Line() string {
	s := fmt.Sprintf("ordered=%d keys=%d lost=%d out-of-order=%d repeats=%d late=%d takeovers=%d overlaps=%d faults=%d", r.Confirmed, r.Keys, r.Lost,
		r.Breaches[OutOfOrder], r.Repeats, r.Late, r.Takeovers, r.Overlaps, r.Faults)
	for _, b := range slices.Sorted(maps.Keys(r.Breaches)) {
		if b != OutOfOrder && b != Lost {
			s += fmt.Sprintf(" %s=%d", strings.ReplaceAll(string(b), " ", "-"), r.Breaches[b])
		}
	}
	return s + fmt.Sprintf(" seed=%d", r.Seed)
}

// places describes where a message was found.
func places(found map[Place]int) string {
	if len(found) == 0 {
		return "no queue"
	}
	var all []string
	for _, p := range slices.Sorted(maps.Keys(found)) {
		all = append(all, fmt.Sprintf("%s (%d)", p, found[p]))
	}
	return strings.Join(all, ", ")
}
