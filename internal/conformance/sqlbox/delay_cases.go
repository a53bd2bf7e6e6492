package sqlbox

import (
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/inbox"
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
			b.Put(rehop.Message{ID: "later", Key: "q", Delay: delay})
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
			b.Put(rehop.Message{ID: "past", Key: "q", At: time.Now().Add(-time.Hour)})
			Equal(b, "message", Receive(b, got, "message of the past").ID, "past")
			at := time.Now().Add(300 * time.Millisecond)
			b.Put(rehop.Message{ID: "at", Key: "q", At: at, Delay: time.Millisecond})
			Equal(b, "message", Receive(b, got, "message").ID, "at")
			if now := time.Now(); now.Before(at.Add(-2 * time.Millisecond)) {
				t.Errorf("came at %v, want not before %v", now, at)
			}
		}},
		{Name: "LaterCounts", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Put(rehop.Message{ID: "delay", Key: "q", At: time.Now().Add(time.Minute), Delay: time.Hour},
				rehop.Message{ID: "at", Key: "q", At: time.Now().Add(time.Hour), Delay: time.Minute})
			list, err := b.Inspector().List(b.Context(), outbox.StateDelayed, outbox.RowID{}, 10)
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
			b.Put(rehop.Message{ID: "later", Key: "q", Delay: time.Hour},
				rehop.Message{ID: "due", Key: "q", Delay: time.Hour}, To("q", "now"))
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
		{Name: "CancelAfterTry", Run: func(t *testing.T, b *Bench) {
			// The broker may have it, so it cannot be taken back.
			b.Migrate()
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.RetryMin, relay.RetryMax = told.hooks(), time.Hour, time.Hour
			b.Start(relay)
			b.Put(rehop.Message{ID: "tried", Key: "missing", Delay: time.Millisecond})
			b.Eventually("it waits for its next try", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox WHERE attempts = 1") == 1 })
			tx := b.Tx()
			canceled, err := b.Box.Cancel(b.Context(), tx, "tried")
			b.Must(err)
			b.Must(tx.Commit())
			Equal(b, "canceled", canceled, false)
			Equal(b, "rows", b.Rows(), 1)
		}},
		{Name: "CancelInEachOthersWay", Not: oneWriter, Run: cancelInEachOthersWay},
		{Name: "CancelWithOldPlan", Not: notPostgres, Run: cancelWithOldPlan},
	}
}

// cancelInEachOthersWay: a transaction that cancels a message, or one that is gone, holds up nobody who publishes, and can publish itself.
func cancelInEachOthersWay(t *testing.T, b *Bench) {
	b.Migrate()
	later := func(id string) rehop.Message {
		return rehop.Message{ID: id, Key: "q", Delay: time.Hour}
	}
	b.Put(later("m1"), later("m3"), later("m5"), later("m7"))
	ctx := b.Context()
	var open []inbox.Transaction
	for _, id := range []string{"m3", "m5", "m4", "m9"} { // the last two are gone
		tx := b.Tx()
		canceled, err := b.Box.Cancel(ctx, tx, id)
		if want := id == "m3" || id == "m5"; err != nil || canceled != want {
			t.Errorf("cancel %s: got %v and error %v, want %v", id, canceled, err, want)
		}
		open = append(open, tx)
	}
	for i, id := range []string{"m2", "m4", "m6", "m9"} {
		if err := b.Box.Publish(ctx, open[i], later(id)); err != nil {
			t.Errorf("publish %s after Cancel: got %v, want nil", id, err)
		}
		other := b.Tx()
		if err := b.Box.Publish(ctx, other, To("q", id+" of another")); err != nil {
			t.Errorf("publish while others have canceled: got %v, want nil", err)
		}
		_ = other.Rollback()
	}
	for _, tx := range open {
		b.Must(tx.Commit())
	}
	Equal(b, "rows", b.Rows(), 6)
}

// cancelWithOldPlan: how the database found a message in an empty table does not matter when the table is full.
func cancelWithOldPlan(t *testing.T, b *Bench) {
	b.Migrate()
	b.Exec("VACUUM rehop_outbox") // now the database knows that it is empty
	db := b.Open(t)
	db.SetMaxOpenConns(1) // plans are a connection's
	cancel := func() (readWhole int) {
		t.Helper()
		tx, err := db.BeginTx(b.Context(), nil)
		b.Must(err)
		defer func() { _ = tx.Rollback() }()
		counted := func() (n int) {
			t.Helper()
			b.Must(tx.QueryRowContext(b.Context(), "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'rehop_outbox'").Scan(&n))
			return n
		}
		before := counted()
		_, err = tx.ExecContext(b.Context(), "SET LOCAL plan_cache_mode = auto")
		b.Must(err)
		_, err = b.Box.Cancel(b.Context(), tx, "m")
		b.Must(err)
		var mode string
		b.Must(tx.QueryRowContext(b.Context(), "SELECT current_setting('plan_cache_mode')").Scan(&mode))
		Equal(b, "the transaction's own setting afterwards", mode, "auto")
		return counted() - before
	}
	for range 10 {
		cancel()
	}
	b.Exec(`INSERT INTO rehop_outbox (state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body)
		SELECT 2, 0, 1e16, 0, 0, 'other ' || n, '', 'q', '', '{}', '', '' FROM generate_series(1, 20000) AS n`)
	Equal(b, "times that the whole table was read", cancel(), 0)
}
