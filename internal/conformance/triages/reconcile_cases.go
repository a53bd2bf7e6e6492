package triages

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop/triage"
)

func reconcileCases() []Case {
	const queue = "orders.failed"
	return []Case{
		{"Exact", func(t *testing.T, b *Bench) {
			other := failed("other", 1)
			other.FailedQueue = "other.failed"
			b.put(failed("1", 1), failed("2", 2), failed("3", 3), other)
			done := b.reconcile(queue, failed("2", 2), failed("4", 4), failed("3", 3))
			equal(b, "done", done, triage.Reconciled{Seen: 3, Added: 1, Gone: 1})
			equal(b, "failed", ids(b.search("state:failed queue:orders")), []string{"other", "2", "3", "4"})
			equal(b, "gone", ids(b.search("state:gone")), []string{"1"})
			queues, err := b.Store.Queues(b.ctx)
			b.must(err)
			equal(b, "failed messages of queues", fmt.Sprint(queues[0].Name, queues[0].Failed, queues[1].Name, queues[1].Failed), "orders.failed3other.failed1")
			if queues[0].Swept.IsZero() || !queues[1].Swept.IsZero() {
				t.Errorf("got %+v, want the time of the sweep of the first", queues)
			}
			b.check()
			done = b.reconcile(queue, failed("1", 1)) // it was only hidden, for example by another sweep
			equal(b, "found again", done, triage.Reconciled{Seen: 1, Added: 1, Gone: 3})
			equal(b, "empty", b.reconcile(queue), triage.Reconciled{Gone: 1})
			b.check()
		}},
		{"Twins", func(t *testing.T, b *Bench) {
			// Messages that are the same in every respect.
			for _, id := range []string{"same", ""} {
				m := failed(id, 1)
				b.put(m, m)
				equal(b, "seen", b.reconcile(queue, m, m, m), triage.Reconciled{Seen: 3, Added: 2})
				found := b.search("state:failed")
				equal(b, "messages", len(found), 3)
				b.put(m)
				equal(b, "seen again", b.reconcile(queue, m, m, m), triage.Reconciled{Seen: 3})
				equal(b, "one is left", b.reconcile(queue, m), triage.Reconciled{Seen: 1, Gone: 2})
				equal(b, "two again", b.reconcile(queue, m, m), triage.Reconciled{Seen: 2, Added: 1})
				equal(b, "none", b.reconcile(queue), triage.Reconciled{Gone: 2})
				b.check()
			}
		}},
		{"FeedMeanwhile", func(t *testing.T, b *Bench) {
			// Messages fail while the sweep runs: one that it sees, and one that it does not.
			b.put(failed("before", 9))
			done, err := b.Store.Reconcile(b.ctx, queue, func(yield func([]triage.Message, error) bool) {
				b.put(failed("late", 1))
				if !yield([]triage.Message{failed("1", 5)}, nil) {
					return
				}
				b.put(failed("1", 5), failed("seen", 2))
				if !yield([]triage.Message{failed("seen", 2)}, nil) {
					return
				}
				b.put(failed("later", 0))
			})
			b.must(err)
			equal(b, "done", done, triage.Reconciled{Seen: 2, Added: 1, Gone: 1})
			equal(b, "failed", ids(b.search("state:failed")), []string{"later", "late", "seen", "1"})
			equal(b, "the next sweep", b.reconcile(queue, failed("1", 5)).Gone, 3)
			b.check()
		}},
		{"States", func(t *testing.T, b *Bench) {
			// Whatever the index thought has happened: what is in the queue has failed.
			for _, state := range []triage.State{triage.Replayed, triage.Succeeded, triage.Discarded, triage.Gone} {
				m := failed(string(state), 1)
				b.put(m)
				b.set(m.ID, state)
				b.reconcile(queue, m)
				equal(b, string(state), b.only("id:"+m.ID).State, triage.Failed)
				b.reconcile(queue)
			}
			// A message that is kept stays kept, and one that is equal to it is another one.
			kept := failed("kept", 1)
			b.put(kept)
			b.set("kept", triage.Kept)
			b.reconcile(queue)
			equal(b, "kept, and not in the queue", b.only("id:kept").State, triage.Kept)
			for range 2 {
				b.reconcile(queue, kept)
				equal(b, "kept", b.only("id:kept state:kept").State, triage.Kept)
				equal(b, "in the queue", b.only("id:kept state:failed").State, triage.Failed)
			}
			b.reconcile(queue)
			equal(b, "kept, and the other one is gone", b.only("id:kept -state:gone").State, triage.Kept)
			m := failed("never kept", 1)
			b.put(m)
			if _, err := b.Store.SetStates(b.ctx, triage.Change{Refs: []string{b.only(`id:"never kept"`).Ref}, To: triage.Kept}); err == nil {
				t.Error("a message whose contents are not in the store: got nil, want an error")
			}
			b.check()
		}},
		{"Replayed", func(t *testing.T, b *Bench) {
			// It has failed again after a replay, and its copy was lost.
			b.put(failed("1", 60))
			ref := b.only("").Ref
			again := failed("1", 2)
			again.Replays = 1
			b.reconcile(queue, again)
			equal(b, "ref", b.only("state:failed").Ref, ref)
			b.check()
		}},
		{"Broken", func(t *testing.T, b *Bench) {
			// A sweep that does not end declares nothing gone.
			b.put(failed("1", 1), failed("2", 1))
			broken := errors.New("connection lost")
			_, err := b.Store.Reconcile(b.ctx, queue, func(yield func([]triage.Message, error) bool) {
				_ = yield([]triage.Message{failed("1", 1)}, nil) && yield(nil, broken)
			})
			if !errors.Is(err, broken) {
				t.Errorf("got %v, want the error of the sweep", err)
			}
			equal(b, "failed", b.count(triage.Failed), 2)
			_, err = b.Store.Reconcile(b.ctx, queue, func(yield func([]triage.Message, error) bool) {
				b.reconcile(queue, failed("1", 1), failed("2", 1))
				yield([]triage.Message{failed("1", 1)}, nil)
			})
			if !errors.Is(err, triage.ErrSuperseded) {
				t.Errorf("a sweep that another one has overtaken: got %v, want ErrSuperseded", err)
			}
			other := failed("3", 1)
			other.FailedQueue = "other"
			if _, err := b.Store.Reconcile(b.ctx, queue, batches([]triage.Message{other}, 1)); err == nil || !strings.Contains(err.Error(), "other") {
				t.Errorf("a message of another queue: got %v, want an error", err)
			}
			equal(b, "failed at the end", b.count(triage.Failed), 2)
			b.check()
		}},
		{"Many", func(t *testing.T, b *Bench) {
			// More than one transaction each.
			var all []triage.Message
			for i := range 2500 {
				all = append(all, failed(fmt.Sprint(i), i%500))
			}
			done, err := b.Store.Reconcile(b.ctx, queue, batches(all, 700))
			b.must(err)
			equal(b, "all", done, triage.Reconciled{Seen: 2500, Added: 2500})
			done, err = b.Store.Reconcile(b.ctx, queue, batches(all[2200:], 700))
			b.must(err)
			equal(b, "most are gone", done, triage.Reconciled{Seen: 300, Gone: 2200})
			equal(b, "counted", b.groups()[0].Counts, triage.Counts{Failed: 300, Gone: 2200})
			b.check()
		}},
	}
}
