package inorder

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Script decides what becomes of the messages of a workload. It can be handed to another process.
type Script struct {
	Seed       uint64
	Queue      string
	Keys       int
	Partitions int           // how many queues the messages are spread over; 0: one
	Sessions   time.Duration // how long a session of a process lasts; 0: as usual
	Halt       bool          // a message that has failed for good halts its key
	Unordered  bool          // without order by key, to show that the audit finds that
}

// Fate is what the script has for a message.
type Fate int

// The fates.
const (
	Good     Fate = iota
	Later         // it fails twice
	Hopeless      // it always fails, until an operator replays it
	Stubborn      // it is postponed until many messages of other keys were handled
)

const (
	concurrency = 8
	window      = 128
	steps       = 2
	ahead       = 5  // messages of a key that are not over, at the most
	others      = 20 // that must be published and handled while a Stubborn message fails
)

// Fate is what the script has for a message.
func (s Script) Fate(key string, n int) Fate {
	switch x := s.draw("fate", key, n) % 400; {
	case x < 8:
		return Later
	case x < 12:
		return Hopeless
	case x < 13:
		return Stubborn
	}
	return Good
}

// draw is a number that looks random, and is the same for the same seed.
func (s Script) draw(what, key string, n int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.Seed, what, key, "/", n)
	x := h.Sum64() // of similar texts, these differ too little in their upper bits
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// enough is how many messages of other keys a process handles before a Stubborn one succeeds. Some of them were published
// after it has failed first.
func (s Script) enough() int { return s.Keys*(ahead+1) + others }

// Rules are those of a workload with this script.
func (s Script) Rules() Rules {
	return Rules{Window: window, Held: s.Keys * (ahead + 1), Concurrency: concurrency, Others: others, Fate: s.Fate, Halts: s.Halt}
}
