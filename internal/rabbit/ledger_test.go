package rabbit

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// still is a ledger without a channel and without its goroutine.
func still(told func(notes []any, sent bool)) *ledger {
	l := newLedger(nil, 1000, ConsumeOptions{Settled: told})
	l.stop()
	l.ended = false
	return l
}

// books is such a ledger in which nothing waits.
func books() *ledger {
	l := still(nil)
	l.slack = 1 // nothing waits behind a gap
	return l
}

func TestLedgerCollect(t *testing.T) {
	type settled struct {
		tag uint64
		v   verdict
	}
	for _, test := range []struct {
		name      string
		delivered uint64
		settled   []settled
		want      []settlement
	}{
		{"nothing", 3, nil, nil},
		{"all", 3, []settled{{2, acked}, {1, acked}, {3, acked}}, []settlement{{3, acked, true}}},
		{"prefix", 4, []settled{{1, acked}, {2, acked}}, []settlement{{2, acked, true}}},
		{"behind a gap", 4, []settled{{3, acked}, {4, acked}}, []settlement{{3, acked, false}, {4, acked, false}}},
		{"prefix and gap", 4, []settled{{1, acked}, {3, acked}}, []settlement{{1, acked, true}, {3, acked, false}}},
		{"requeue within the prefix comes first", 3, []settled{{1, acked}, {2, requeued}, {3, acked}}, []settlement{{2, requeued, false}, {3, acked, true}}},
		{"reject at the end", 3, []settled{{1, acked}, {2, acked}, {3, rejected}}, []settlement{{3, rejected, false}, {2, acked, true}}},
		{"only given back", 2, []settled{{1, requeued}, {2, rejected}}, []settlement{{1, requeued, false}, {2, rejected, false}}},
		{"second verdict is ignored", 1, []settled{{1, acked}, {1, requeued}}, []settlement{{1, acked, true}}},
		{"unknown tags are ignored", 1, []settled{{0, acked}, {7, acked}, {1<<64 - 1, acked}}, nil},
	} {
		l := books()
		l.delivered(test.delivered)
		for _, s := range test.settled {
			l.settle(s.tag, s.v, nil)
		}
		if got, _ := l.collect(nil); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
		if got, _ := l.collect(nil); len(got) != 0 {
			t.Errorf("%s: told again: %v", test.name, got)
		}
	}
}

func TestLedgerEnds(t *testing.T) {
	l := books()
	l.delivered(2)
	l.settle(1, acked, nil)
	l.retire()
	if _, all := l.collect(nil); all == 0 {
		t.Error("ended with one delivery unsettled")
	}
	l.settle(2, requeued, nil)
	if _, all := l.collect(nil); all != 0 {
		t.Error("not ended although everything is settled")
	}
}

// A broker that keeps its own books: each delivery is settled once, in the way that it was meant.
func TestLedgerAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		l := books()
		meant := make(map[uint64]verdict)
		held := make(map[uint64]bool)    // what the broker thinks we hold
		got := make(map[uint64]verdict)  // what it was sent
		tell := func(out []settlement) { // as the broker does
			for _, s := range out {
				if !held[s.tag] {
					t.Fatalf("seed %d: %v settles a delivery that is not held: the broker would close the channel", seed, s)
				}
				for tag := range held {
					if tag == s.tag || s.multiple && tag < s.tag {
						delete(held, tag)
						got[tag] = s.verdict
					}
				}
			}
		}
		next := uint64(0)
		var open []uint64
		for range 200 {
			switch random.IntN(5) {
			case 0, 1: // deliver some
				for range 1 + random.IntN(4) {
					next++
					held[next] = true
					open = append(open, next)
				}
				l.delivered(next)
			case 2, 3: // settle one
				if len(open) > 0 {
					i := random.IntN(len(open))
					v := []verdict{acked, acked, acked, requeued, rejected}[random.IntN(5)]
					l.settle(open[i], v, nil)
					meant[open[i]] = v
					open = append(open[:i], open[i+1:]...)
				}
			default:
				out, _ := l.collect(nil)
				tell(out)
			}
		}
		out, _ := l.collect(nil)
		tell(out)
		if !reflect.DeepEqual(got, meant) {
			t.Fatalf("seed %d: the broker was told %v, want %v", seed, got, meant)
		}
		if len(held) != len(open) {
			t.Fatalf("seed %d: the broker holds %d, want the %d that are open", seed, len(held), len(open))
		}
	}
}

// What is finished behind a gap waits for the gap to close, but not for long, and not when the
// prefetch is nearly used up.
func TestLedgerGap(t *testing.T) {
	for name, until := range map[string]func(*ledger){
		"the timer fires":    (*ledger).expire,
		"somebody waits":     (*ledger).flush,
		"too many are there": func(l *ledger) { l.slack = 2 },
	} {
		l := still(nil)
		l.delivered(3)
		l.settle(2, acked, nil)
		l.settle(3, acked, nil)
		if got, _ := l.collect(nil); len(got) != 0 {
			t.Errorf("%s: before that the broker was told %v, want nothing", name, got)
		}
		until(l)
		want := []settlement{{tag: 2, verdict: acked}, {tag: 3, verdict: acked}}
		if got, _ := l.collect(nil); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the broker was told %v, want %v", name, got, want)
		}
		l.settle(1, acked, nil)
		if got, _ := l.collect(nil); !reflect.DeepEqual(got, []settlement{{tag: 1, verdict: acked, multiple: true}}) {
			t.Errorf("%s: when the gap closed the broker was told %v, want tag 1 alone", name, got)
		}
	}
}

// Also when no more will come, what is finished behind a gap is not acked one by one at once: the broker forgets acks if
// there are too many when the channel closes.
func TestLedgerRetired(t *testing.T) {
	l := still(nil)
	l.delivered(40)
	l.retire()
	for tag := uint64(40); tag > 1; tag-- {
		l.settle(tag, acked, nil)
	}
	if got, left := l.collect(nil); len(got) != 0 || left != -1 {
		t.Errorf("the broker was told %v, %d left, want nothing yet", got, left)
	}
	l.settle(1, acked, nil)
	if got, left := l.collect(nil); len(got) != 1 || left != 0 {
		t.Errorf("the broker was told %v, %d left, want one frame for all", got, left)
	}
}

// Each note is reported once: as sent when its verdict has been sent, otherwise when the session has ended. Afterwards nothing is taken.
func TestLedgerNotes(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 4))
		told := make(map[any]bool)
		l := still(func(notes []any, sent bool) {
			for _, note := range notes {
				if _, twice := told[note]; twice {
					t.Fatalf("seed %d: delivery %v is told twice", seed, note)
				}
				told[note] = sent
			}
		})
		settled, sent := make(map[uint64]bool), make(map[uint64]bool)
		const deliveries = 30
		for range 100 {
			switch tag := 1 + random.Uint64N(deliveries); random.IntN(4) {
			case 0:
				l.delivered(tag)
			case 1, 2:
				delivered := tag < l.first+uint64(len(l.verdicts))
				if delivered && !settled[tag] {
					settled[tag] = true
					l.settle(tag, []verdict{acked, requeued, rejected}[random.IntN(3)], tag)
				}
			case 3:
				l.mu.Lock() // the timer may fire
				l.late, l.mark = random.IntN(2) == 0, l.first
				l.mu.Unlock()
				out, _ := l.collect(nil)
				l.reportNotes(true)
				for _, s := range out {
					for tag := range settled {
						sent[tag] = sent[tag] || tag == s.tag || s.multiple && tag < s.tag
					}
				}
			}
		}
		l.leave()
		for tag := range settled {
			if got, ok := told[tag]; !ok || got != sent[tag] {
				t.Fatalf("seed %d: delivery %d: told %v, as sent %v, want true, %v", seed, tag, ok, got, sent[tag])
			}
		}
		if len(told) != len(settled) {
			t.Fatalf("seed %d: told of %d deliveries, want %d", seed, len(told), len(settled))
		}
		l.delivered(deliveries + 1)
		if l.settle(deliveries+1, acked, nil) {
			t.Fatalf("seed %d: a verdict is taken after the end", seed)
		}
	}
}
