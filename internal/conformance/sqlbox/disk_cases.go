package sqlbox

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

// diskCases show on PostgreSQL, which can be asked what is on disk, that nothing leaves the database before it is. On others crashes show
// it. See RunDisk.
func diskCases() []Case {
	return []Case{
		{Name: "PublishedWhenOnDisk", Run: func(t *testing.T, b *Bench) {
			// Transactions that do not wait for the disk are visible at once.
			b.Migrate()
			got := b.Collect("q")
			hasty := b.OpenWith(t, "synchronous_commit", "off")
			var written sync.Map // places in the log, by message
			relay := b.Relay()
			relay.DB = hasty
			relay.Client = &watcher{Publisher: b.Client, sends: func(id string) {
				place, _ := written.Load(id)
				b.onDisk("message "+id+" is published", place.(string))
			}}
			b.Start(relay)
			for i := range 20 {
				id := fmt.Sprint(i)
				tx, err := hasty.BeginTx(b.Context(), nil)
				b.Must(err)
				b.Must(b.Box.Publish(b.Context(), tx, To("q", id)))
				written.Store(id, place(b, tx))
				b.Must(tx.Commit())
				Equal(b, "message", Receive(b, got, "message").ID, id)
			}
		}},
		{Name: "AckedWhenOnDisk", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			hasty := b.OpenWith(t, "synchronous_commit", "off")
			in := inbox.Inbox{DB: hasty, Dialect: b.Dialect}
			written := ""
			handle := in.Middleware("q")(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				err := b.effect(ctx, d)
				written = place(b, inbox.Tx(ctx))
				return err
			}))
			for i := range 20 {
				b.Must(handle.Handle(b.Context(), &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: fmt.Sprint(i)}}))
				b.onDisk("a message is acked", written)
			}
			// Another program has handled a message, and did not wait for the disk.
			for i := range 20 {
				tx, err := hasty.BeginTx(b.Context(), nil)
				b.Must(err)
				_, err = tx.ExecContext(b.Context(), "INSERT INTO rehop_inbox (handled, consumer, message_id) VALUES (1, 'q', $1)", fmt.Appendf(nil, "copy %d", i))
				b.Must(err)
				written = place(b, tx)
				b.Must(tx.Commit())
				b.Must(handle.Handle(b.Context(), &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: fmt.Sprint("copy ", i)}}))
				b.onDisk("a copy is acked", written)
			}
		}},
	}
}

// place is up to where the log is written, and not on disk yet perhaps.
func place(b *Bench, tx *sql.Tx) (place string) {
	if err := tx.QueryRowContext(b.Context(), "SELECT pg_current_wal_insert_lsn()").Scan(&place); err != nil {
		b.t.Errorf("ask what is written: %v", err)
	}
	return place
}

// onDisk checks that the log is on disk up to a place.
func (b *Bench) onDisk(when, place string) {
	var behind int
	if err := b.DB.QueryRowContext(b.Context(), "SELECT $1::pg_lsn - pg_current_wal_flush_lsn()", place).Scan(&behind); err != nil {
		b.t.Errorf("ask what is on disk: %v", err)
	}
	if behind > 0 {
		b.t.Errorf("%s: got %d bytes of its transaction that are not on disk, want none", when, behind)
	}
}

// watcher is a publisher that is asked before messages are sent.
type watcher struct {
	outbox.Publisher
	sends func(id string)
}

func (w *watcher) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	for _, m := range messages {
		w.sends(m.ID)
	}
	w.Publisher.PublishEach(ctx, messages, settled)
}
