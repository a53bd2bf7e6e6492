package triages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/triage"
)

func randomCases() []Case {
	return []Case{{"Operations", operations}}
}

// model is what a failed queue has, and what Put must have recorded since the last sweep.
type model struct {
	queue []triage.Message
	fed   bool // something was put since the sweep, so that the index may have more than the queue
}

// operations: after random operations counters agree with what they count, and after a sweep the index has exactly what the queue has.
func operations(t *testing.T, b *Bench) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	queues := map[string]*model{"a.failed": {}, "b.failed": {}}
	version, failures := 1, 0
	for round := range b.Rounds {
		name := pick(random, []string{"a.failed", "b.failed"})
		m := queues[name]
		doing := ""
		switch n := random.IntN(20); {
		case n < 8: // messages fail; some copies are lost, some come twice, some are of messages that are gone again
			doing = "put"
			var copies []triage.Message
			for range 1 + random.IntN(6) {
				failures++
				one := failed(fmt.Sprint(random.IntN(12)), 0)
				if random.IntN(5) == 0 {
					one.ID, one.Body = "", []byte(fmt.Sprint(random.IntN(2)))
				}
				one.FailedQueue, one.Error = name, fmt.Sprintf("cause %c", 'a'+random.IntN(3))
				one.FailedAt, one.Replays = noon.Add(time.Duration(failures/2)*time.Minute), random.IntN(2) // two can be the same
				if random.IntN(6) > 0 {
					m.queue = append(m.queue, one)
				}
				for range random.IntN(3) {
					copies = append(copies, one)
				}
			}
			random.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
			b.put(copies...)
			m.fed = m.fed || len(copies) > 0
		case n < 13:
			doing = "sweep"
			for len(m.queue) > 0 && random.IntN(3) == 0 { // somebody has taken a message from the queue
				i := random.IntN(len(m.queue))
				m.queue = slices.Delete(m.queue, i, i+1)
			}
			shuffled := slices.Clone(m.queue)
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			done := b.reconcile(name, shuffled...)
			equal(b, "seen", done.Seen, len(m.queue))
			b.sameAs(name, m.queue)
		case n < 17:
			doing = "states"
			var refs []string
			for _, found := range b.search("") {
				if random.IntN(4) == 0 {
					refs = append(refs, found.Ref)
				}
			}
			to := []triage.State{triage.Replayed, triage.Succeeded, triage.Discarded, triage.Failed}[random.IntN(4)]
			_, err := b.Store.SetStates(b.ctx, triage.Change{Refs: refs, To: to, From: []triage.State{triage.Failed, triage.Replayed, triage.Discarded}, Run: fmt.Sprint(round)})
			b.must(err)
		case n < 18:
			doing = "clean"
			_, err := b.Store.Clean(b.ctx, 0)
			b.must(err)
		case n < 19:
			doing = "regroup"
			version++
			b.Store = b.open(triage.Config{Grouping: triage.Grouping{Version: version, Of: func(m *triage.Message) string { return m.Error[:len(m.Error)-version%2] }}})
			_, err := b.Store.Regroup(b.ctx)
			b.must(err)
		default:
			doing = "decide"
			for _, g := range b.groups() {
				state := []triage.GroupState{triage.Resolved, triage.Ignored, triage.GroupOpen}[random.IntN(3)]
				_, err := b.Store.SetGroup(b.ctx, g.ID, triage.GroupChange{State: &state}, "ann")
				b.must(err)
			}
		}
		if err := b.Store.Check(b.ctx); err != nil {
			t.Fatalf("round %d, after %s: %v", round, doing, err)
		}
	}
	for name, m := range queues {
		b.reconcile(name, m.queue...)
		b.sameAs(name, m.queue)
	}
	b.check()
	if _, err := b.Store.VerifyAudit(b.ctx, triage.Head{}); err != nil {
		t.Error(err)
	}
}

// sameAs compares the messages of a queue that the index has with those that the queue has.
func (b *Bench) sameAs(queue string, messages []triage.Message) {
	b.t.Helper()
	describe := func(m triage.Message) string {
		return fmt.Sprintf("%s %s %d %s %d", m.ID, m.FailedAt.UTC().Format(time.TimeOnly), m.Replays, m.Error, m.Size)
	}
	var want, got []string
	for _, m := range messages {
		m.Size = len(m.Body)
		want = append(want, describe(m))
	}
	found, _ := b.searchAll("state:failed", 100)
	for _, m := range found {
		if m.FailedQueue == queue {
			got = append(got, describe(m))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.t.Fatalf("queue %s: the index has\n%q\nthe queue has\n%q", queue, got, want)
	}
}
