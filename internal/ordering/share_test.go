package ordering

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/conformance/seeds"
)

// sharing is a model of processes that share partitions on a broker: the active consumer of a partition is the first in its
// list, and each other process shows to it now and then that it is there.
type sharing struct {
	now       time.Time
	consumers [][]string // of each partition, in the order in which the broker chooses
	back      []map[string]time.Time
	shares    map[string]*Share
	shown     map[string]time.Time
	takeovers int
	random    *rand.Rand
}

func newSharing(partitions int, random *rand.Rand) *sharing {
	s := &sharing{random: random, now: time.Unix(1_000_000, 0), consumers: make([][]string, partitions), shares: make(map[string]*Share), shown: make(map[string]time.Time)}
	for range partitions {
		s.back = append(s.back, make(map[string]time.Time))
	}
	return s
}

func (s *sharing) join(process string) {
	s.shares[process] = NewShare(process, len(s.consumers))
	s.shown[process] = s.now.Add(-time.Duration(s.random.Int64N(int64(ShareEvery))))
	for n := range s.consumers {
		s.consumers[n] = append(s.consumers[n], process)
	}
	s.settle()
}

func (s *sharing) leave(process string) {
	delete(s.shares, process)
	for n := range s.consumers {
		delete(s.back[n], process)
		s.consumers[n] = slices.DeleteFunc(s.consumers[n], func(p string) bool { return p == process })
	}
	s.settle()
}

// settle lets the processes know what they have.
func (s *sharing) settle() {
	for n, waiting := range s.consumers {
		for process, share := range s.shares {
			owns := len(waiting) > 0 && waiting[0] == process
			if _, had := share.owned[n]; owns && !had {
				s.takeovers++
			}
			share.Own(n, owns, false)
		}
	}
}

// second passes a second.
func (s *sharing) second() {
	s.now = s.now.Add(time.Second)
	for n := range s.consumers {
		for _, process := range slices.Sorted(maps.Keys(s.back[n])) {
			if !s.now.Before(s.back[n][process]) {
				delete(s.back[n], process)
				s.consumers[n] = append(s.consumers[n], process)
			}
		}
	}
	s.settle()
	processes := slices.Sorted(maps.Keys(s.shares)) // the same in each run with the same seed
	for _, process := range processes {
		share := s.shares[process]
		if s.now.Sub(s.shown[process]) < ShareEvery {
			continue
		}
		s.shown[process] = s.now
		for _, waiting := range s.consumers {
			if len(waiting) > 0 && waiting[0] != process && slices.Contains(waiting, process) {
				s.shares[waiting[0]].Saw(process, share.Owned(), s.now)
			}
		}
	}
	for _, process := range processes {
		for _, n := range s.shares[process].Release(s.now) {
			s.consumers[n] = s.consumers[n][1:]
			s.back[n][process] = s.now.Add(2 * time.Second)
		}
	}
	s.settle()
}

// spread is how many partitions the processes have that have fewest and most.
func (s *sharing) spread() (fewest, most int) {
	fewest = len(s.consumers)
	for _, share := range s.shares {
		fewest, most = min(fewest, share.Owned()), max(most, share.Owned())
	}
	return fewest, most
}

// TestShare: whichever processes come and go, they share the partitions evenly after some time, and then nothing moves any more.
func TestShare(t *testing.T) {
	random := rand.New(rand.NewPCG(seeds.Of(t), 3))
	worst := 0
	for run := range 25 {
		s := newSharing(1<<(1+random.IntN(6)), random)
		var processes []string
		for change := range 6 {
			for range 1 + random.IntN(4) {
				if len(processes) > 1 && random.IntN(2) == 0 {
					at := random.IntN(len(processes))
					s.leave(processes[at])
					processes = slices.Delete(processes, at, at+1)
				} else {
					processes = append(processes, fmt.Sprint("process ", run, change, len(processes), random.IntN(1_000_000)))
					s.join(processes[len(processes)-1])
				}
			}
			seconds := 0
			for fewest, most := s.spread(); most > fewest+1; fewest, most = s.spread() {
				if seconds++; seconds > 3600 {
					t.Fatalf("run %d: after an hour, %d processes have from %d to %d of %d partitions", run, len(processes), fewest, most, len(s.consumers))
				}
				s.second()
			}
			worst = max(worst, seconds)
			for range 120 { // what was known when the last one moved may move one more
				s.second()
			}
			before := s.takeovers
			for range 200 {
				s.second()
			}
			if fewest, most := s.spread(); s.takeovers != before || most > fewest+1 {
				t.Fatalf("run %d: %d partitions moved although they were shared evenly; now %d to %d", run, s.takeovers-before, fewest, most)
			}
		}
	}
	t.Logf("at the most %d s until all was even", worst)
}

// TestShareAlone: a process that sees no other keeps all.
func TestShareAlone(t *testing.T) {
	s := NewShare("me", 4)
	now := time.Now()
	for n := range 4 {
		s.Own(n, true, n == 3)
	}
	s.Saw("me", 0, now)
	if got := s.Release(now); got != nil {
		t.Errorf("released %v, want none", got)
	}
	s.Saw("gone", 0, now)
	if got := s.Release(now.Add(seenFor)); got != nil {
		t.Errorf("released %v to a process that is gone", got)
	}
}

// TestShareReleasesIdle: a partition for whose handlers nobody has to wait goes first.
func TestShareReleasesIdle(t *testing.T) {
	s := NewShare("me", 4)
	now := time.Now()
	for n := range 4 {
		s.Own(n, true, n > 1)
	}
	s.Saw("other", 0, now)
	if got := s.Release(now); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("released %v, want 1 and 0", got)
	}
}
