package triages

import (
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop/triage"
)

func cleanCases() []Case {
	return []Case{
		{"Final", func(t *testing.T, b *Bench) {
			all := []triage.State{triage.Failed, triage.Kept, triage.Replayed, triage.Succeeded, triage.Discarded, triage.Gone}
			for _, state := range all {
				for _, age := range []string{"old", "new"} {
					m := failed(string(state)+age, 600)
					m.Error = "cause of " + string(state)
					b.put(m)
					if state != triage.Failed {
						b.set(m.ID, state)
					}
				}
			}
			for _, state := range all {
				b.exec("UPDATE rehop_triage_message SET changed = changed - 3600000000 WHERE message_id = ?", []byte(string(state)+"old"))
			}
			done, err := b.Store.Clean(b.ctx, 30*time.Minute)
			b.must(err)
			equal(b, "cleaned", done, triage.Cleaned{Messages: 4})
			equal(b, "left", len(b.search("")), 8)
			b.check()
			done, err = b.Store.Clean(b.ctx, 0)
			b.must(err)
			equal(b, "cleaned", done, triage.Cleaned{Messages: 4, Groups: 4})
			equal(b, "left", len(b.search("")), 4)
			equal(b, "groups left", len(b.groups()), 2)
			equal(b, "found by a word of a deleted message", len(b.search("succeeded")), 0)
			b.check()
			if _, err := b.Store.Clean(b.ctx, -time.Second); err == nil {
				t.Error("a negative time: got nil, want an error")
			}
		}},
		{"Groups", func(t *testing.T, b *Bench) {
			// A group without messages stays as long as its messages would have.
			m := failed("1", 0)
			m.FailedAt = time.Now().Add(-time.Minute)
			b.put(m)
			b.reconcile(m.FailedQueue)
			b.exec("UPDATE rehop_triage_message SET changed = changed - 7200000000")
			done, err := b.Store.Clean(b.ctx, time.Hour)
			b.must(err)
			equal(b, "cleaned", done, triage.Cleaned{Messages: 1})
			equal(b, "groups", len(b.groups()), 1)
			b.exec("UPDATE rehop_triage_group SET last_seen = last_seen - 7200000000")
			done, err = b.Store.Clean(b.ctx, time.Hour)
			b.must(err)
			equal(b, "cleaned later", done, triage.Cleaned{Groups: 1})
			b.check()
		}},
		{"Many", func(t *testing.T, b *Bench) {
			var all []triage.Message
			for i := range 1300 {
				all = append(all, failed(fmt.Sprint(i), i%100))
			}
			b.put(all...)
			b.reconcile(all[0].FailedQueue, all[:5]...)
			done, err := b.Store.Clean(b.ctx, 0)
			b.must(err)
			equal(b, "cleaned", done, triage.Cleaned{Messages: 1295})
			b.check()
		}},
	}
}
