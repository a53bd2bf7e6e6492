package sqlbox

import (
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

func delayCases() []Case {
	return []Case{
		{Name: "Delay", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			const delay = 400 * time.Millisecond
			put := time.Now()
			b.Put(outbox.Message{Message: rehop.Message{ID: "later", Key: "q", Delay: delay}})
			Equal(b, "message", Receive(b, got, "message").ID, "later")
			// Databases reckon to the millisecond.
			if waited := time.Since(put); waited < delay-2*time.Millisecond {
				t.Errorf("waited: got %v, want at least %v", waited, delay)
			}
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
		}},
		{Name: "At", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			b.Put(outbox.Message{Message: rehop.Message{ID: "past", Key: "q", At: time.Now().Add(-time.Hour)}})
			Equal(b, "message", Receive(b, got, "message of the past").ID, "past")
			at := time.Now().Add(300 * time.Millisecond)
			b.Put(outbox.Message{Message: rehop.Message{ID: "at", Key: "q", At: at, Delay: time.Millisecond}})
			Equal(b, "message", Receive(b, got, "message").ID, "at")
			if now := time.Now(); now.Before(at.Add(-2 * time.Millisecond)) {
				t.Errorf("came at %v, want not before %v", now, at)
			}
		}},
		{Name: "LaterCounts", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Put(outbox.Message{Message: rehop.Message{ID: "delay", Key: "q", At: time.Now().Add(time.Minute), Delay: time.Hour}},
				outbox.Message{Message: rehop.Message{ID: "at", Key: "q", At: time.Now().Add(time.Hour), Delay: time.Minute}})
			list, err := b.Inspector().List(b.Context(), outbox.StateDelayed, 0, 10)
			b.Must(err)
			Equal(b, "delayed", len(list), 2)
			for _, e := range list {
				if left := time.Until(e.Due); left < 59*time.Minute || left > 61*time.Minute {
					t.Errorf("%s: due in %v, want in an hour", e.Message.ID, left)
				}
			}
		}},
		{Name: "Cancel", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Put(outbox.Message{Message: rehop.Message{ID: "later", Key: "q", Delay: time.Hour}},
				outbox.Message{Message: rehop.Message{ID: "due", Key: "q", Delay: time.Hour}}, To("q", "now"))
			b.Exec("UPDATE rehop_outbox SET due = 1 WHERE message_id = 'due'")
			cancel := func(id string, commit bool) bool {
				tx := b.Tx()
				done, err := b.Box.Cancel(b.Context(), tx, id)
				b.Must(err)
				if commit {
					b.Must(tx.Commit())
				} else {
					b.Must(tx.Rollback())
				}
				return done
			}
			for _, c := range []struct {
				what, id string
				commit   bool
				want     bool
			}{
				{"one that is due", "due", true, false}, {"one that is ready", "now", true, false}, {"one that is not there", "x", true, false},
				{"and then rolled back", "later", false, true}, {"one that is delayed", "later", true, true}, {"it again", "later", true, false},
			} {
				if got := cancel(c.id, c.commit); got != c.want {
					t.Errorf("cancel %s: got %v, want %v", c.what, got, c.want)
				}
			}
			Equal(b, "rows", b.Rows(), 2)
		}},
	}
}
