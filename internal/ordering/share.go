package ordering

import (
	"math"
	"time"
)

const (
	// ShareEvery is how often a session that waits for a partition shows that its process is there.
	ShareEvery = 10 * time.Second
	// seenFor is how long a process counts that was seen.
	seenFor = 3*ShareEvery + ShareEvery/2
	// shareAgain is how long a process waits after it has released partitions, so that it knows what the others have then.
	shareAgain = 2 * ShareEvery
)

// Share is the part of a process in the partitions of a queue. The broker decides who becomes the owner of a partition: it is
// the process that has waited longest. A process that has too many releases some, and waits for them again behind the others.
// So the partition comes to each process in turn, until it reaches one that has too few. Methods are not safe for concurrent use.
type Share struct {
	process    string
	partitions int
	owned      map[int]bool // with whether messages of the partition are being handled
	others     map[string]seen
	released   time.Time
}

// seen is what is known of another process.
type seen struct {
	owned int // partitions
	at    time.Time
}

// NewShare returns the share of a process, whose name no other has.
func NewShare(process string, partitions int) *Share {
	return &Share{process: process, partitions: partitions, owned: make(map[int]bool), others: make(map[string]seen)}
}

// Process is the name of the process.
func (s *Share) Process() string { return s.process }

// Owned is how many partitions the process has.
func (s *Share) Owned() int { return len(s.owned) }

// Own notes whether the process has a partition, and whether messages of it are being handled.
func (s *Share) Own(partition int, owns, busy bool) {
	if owns {
		s.owned[partition] = busy
	} else {
		delete(s.owned, partition)
	}
}

// Saw notes that another process waits for a partition of this one, and how many it has.
func (s *Share) Saw(process string, owned int, now time.Time) {
	if process != s.process && process != "" {
		s.others[process] = seen{owned: owned, at: now}
	}
}

// Release returns the partitions that the process is to release now, which then do not count any more.
func (s *Share) Release(now time.Time) (partitions []int) {
	fewest := math.MaxInt
	for process, other := range s.others {
		if now.Sub(other.at) >= seenFor {
			delete(s.others, process)
			continue
		}
		fewest = min(fewest, other.owned)
	}
	if len(s.others) == 0 || now.Sub(s.released) < shareAgain {
		return nil
	}
	processes := len(s.others) + 1
	excess := len(s.owned) - (s.partitions+processes-1)/processes
	if excess <= 0 && fewest <= len(s.owned)-2 {
		excess = 1
	}
	for _, whichever := range []bool{false, true} { // first those for whose handlers nobody has to wait
		for n := s.partitions - 1; n >= 0 && excess > 0; n-- {
			if busy, owns := s.owned[n]; owns && (whichever || !busy) {
				partitions = append(partitions, n)
				delete(s.owned, n)
				excess--
			}
		}
	}
	if partitions != nil {
		s.released = now
	}
	return partitions
}
