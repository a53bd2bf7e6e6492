package sqlbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

func publishCases() []Case {
	return []Case{
		{Name: "NoTransaction", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			conn, err := b.DB.Conn(b.Context())
			b.Must(err)
			defer conn.Close()
			// Types that the outbox knows, and one that it cannot know.
			for _, tx := range []outbox.Tx{b.DB, conn, &hidden{b.DB}, &hidden{conn}} {
				for _, m := range []rehop.Message{To("q", "1"), ordered("k", "q", "1")} {
					if err := b.Box.Publish(b.Context(), tx, m); !errors.Is(err, outbox.ErrNoTransaction) {
						t.Errorf("publish by a %T: got %v, want ErrNoTransaction", tx, err)
					}
				}
				if _, err := b.Box.Cancel(b.Context(), tx, "1"); !errors.Is(err, outbox.ErrNoTransaction) {
					t.Errorf("cancel by a %T: got %v, want ErrNoTransaction", tx, err)
				}
			}
			Equal(b, "rows", b.Rows(), 0)
			// The connections are as they were.
			for range 5 {
				b.Put(To("q", "in a transaction"))
			}
			b.Must(b.Box.PublishNow(b.Context(), b.DB, To("q", "now")))
			Equal(b, "rows", b.Rows(), 6)
		}},
		{Name: "UnknownTransaction", Run: func(t *testing.T, b *Bench) {
			// A transaction of a type that the outbox cannot know is accepted anyway, and so is one that embeds another.
			b.Migrate()
			for i, wrap := range []func(*sql.Tx) outbox.Tx{
				func(tx *sql.Tx) outbox.Tx { return &hidden{tx} },
				func(tx *sql.Tx) outbox.Tx { return struct{ *sql.Tx }{tx} },
				func(tx *sql.Tx) outbox.Tx { return &struct{ *sql.Tx }{tx} },
			} {
				for j, commits := range []bool{false, true} {
					tx, err := b.DB.BeginTx(b.Context(), nil)
					b.Must(err)
					b.Must(b.Box.Publish(b.Context(), wrap(tx), To("q", fmt.Sprint(i, j, 0)), ordered("k", "q", fmt.Sprint(i, j, 1))))
					b.Must(b.Box.Publish(b.Context(), wrap(tx), To("q", fmt.Sprint(i, j, 2))))
					if commits {
						b.Must(tx.Commit())
					} else {
						b.Must(tx.Rollback())
					}
				}
				Equal(b, "rows", b.Rows(), 3*(i+1))
			}
		}},
		{Name: "TransactionByStatement", Run: func(t *testing.T, b *Bench) {
			// Somebody begins and ends transactions by statements on a connection of their own.
			b.Migrate()
			conn, err := b.DB.Conn(b.Context())
			b.Must(err)
			defer conn.Close()
			for _, end := range []string{"ROLLBACK", "COMMIT"} {
				_, err = conn.ExecContext(b.Context(), "BEGIN")
				b.Must(err)
				b.Must(b.Box.Publish(b.Context(), conn, To("q", end), ordered("k", "q", end+" in order")))
				_, err = conn.ExecContext(b.Context(), end)
				b.Must(err)
			}
			Equal(b, "rows", b.Rows(), 2)
			if err := b.Box.Publish(b.Context(), conn, To("q", "after")); !errors.Is(err, outbox.ErrNoTransaction) {
				t.Errorf("after the transaction: got %v, want ErrNoTransaction", err)
			}
		}},
		{Name: "Commit", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			tx := b.Tx()
			_, err := tx.ExecContext(b.Context(), "INSERT INTO effect (name) VALUES ('order')")
			b.Must(err)
			b.Must(b.Box.Publish(b.Context(), tx, To("q", "committed")))
			b.Must(tx.Commit())
			Equal(b, "message", Receive(b, got, "message").ID, "committed")
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
		}},
		{Name: "Rollback", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			for i := range 5 {
				tx := b.Tx()
				b.Must(b.Box.Publish(b.Context(), tx, To("q", fmt.Sprint("rolled back ", i))))
				b.Must(tx.Rollback())
				b.Put(To("q", fmt.Sprint("committed ", i)))
			}
			for range 5 {
				if d := Receive(b, got, "message"); !strings.HasPrefix(d.ID, "committed") {
					t.Errorf("published: got %q, want none that was rolled back", d.ID)
				}
			}
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
			Equal(b, "messages beyond those committed", len(got), 0)
		}},
		{Name: "Whole", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q", "order")
			b.Start(b.Relay())
			want := rehop.Message{
				ID: "größe 'id'", Exchange: "order", Key: "order.größe", Body: []byte("\x00\xff body"),
				Headers: map[string]any{
					"text": "größe \x00 'x'", "bytes": []byte{0, 255}, "int8": int8(-1), "int64": int64(math.MaxInt64), "float": 0.1, "yes": true,
					"time": time.Unix(1_700_000_000, 0), "nil": nil, "list": []any{"a", int32(5)}, "table": map[string]any{"a": map[string]any{"b": "c", "\xfe": "d"}},
					"\xff": "name", "\xfd": "another",
				},
				ContentType: "text/plain", ContentEncoding: "gzip", Priority: 3, Expiration: time.Hour, Timestamp: time.Unix(1_600_000_000, 0),
				CorrelationID: "correlation", ReplyTo: "reply", Type: "type", AppID: "app",
			}
			b.Put(want)
			d := Receive(b, got, "message")
			if !reflect.DeepEqual(d.Message, want) {
				t.Errorf("message:\n got %#v\nwant %#v", d.Message, want)
			}
		}},
		{Name: "Bare", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			messages := []rehop.Message{{Key: "q"}}
			before := time.Now().Truncate(time.Second)
			b.Put(messages...)
			d := Receive(b, got, "message")
			if d.ID == "" || messages[0].ID != "" {
				t.Errorf("id: got %q for the consumer and %q for the publisher, want a new id for the consumer alone", d.ID, messages[0].ID)
			}
			b.Put(messages...) // the same again is another message
			if again := Receive(b, got, "message"); again.ID == d.ID {
				t.Errorf("id: got %q twice, want different ids", d.ID)
			}
			Equal(b, "length of the body", len(d.Body), 0)
			if d.Timestamp.Before(before) || time.Since(d.Timestamp) > limit {
				t.Errorf("timestamp: got %v, want that of Publish, about %v", d.Timestamp, before)
			}
		}},
		{Name: "Many", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			var messages []rehop.Message
			for i := range 250 {
				messages = append(messages, To("q", fmt.Sprint(i)))
			}
			messages[100].Body = bytes.Repeat([]byte("large"), 1<<20) // does not fit into one statement with the others
			messages[100].Body[5] = 0
			b.Put(messages...)
			seen := make(map[string]bool)
			for range messages {
				d := Receive(b, got, "message")
				seen[d.ID] = true
				if d.ID == "100" && !bytes.Equal(d.Body, messages[100].Body) {
					t.Errorf("large body: got %d bytes, want the %d that were published", len(d.Body), len(messages[100].Body))
				}
			}
			Equal(b, "different messages", len(seen), len(messages))
		}},
		{Name: "Nothing", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Put()
			Equal(b, "rows", b.Rows(), 0)
		}},
		{Name: "Refused", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			tx := b.Tx()
			long := strings.Repeat("x", 256)
			for _, c := range []struct {
				what string
				m    rehop.Message
			}{
				{"ID", rehop.Message{ID: long}},
				{"Exchange", rehop.Message{Exchange: "\xff"}},
				{"Key", rehop.Message{Key: "a\x00"}},
				{"OrderKey", rehop.Message{OrderKey: long}},
				{"Type", rehop.Message{Type: "\xfe"}},
				{"rehop-x", rehop.Message{Headers: map[string]any{"rehop-x": 1}}},
				{"chan int", rehop.Message{Headers: map[string]any{"h": make(chan int)}}},
				{"expiration", rehop.Message{Expiration: -1}},
				{"cannot be delayed", rehop.Message{Delay: time.Second, OrderKey: "k"}},
			} {
				err := b.Box.Publish(b.Context(), tx, To("q", "good"), c.m)
				if !errors.Is(err, rehop.ErrInvalid) || !strings.Contains(err.Error(), c.what) {
					t.Errorf("got error %v, want ErrInvalid about %s", err, c.what)
				}
			}
			// The transaction continues as if nothing had been asked.
			b.Must(b.Box.Publish(b.Context(), tx, To("q", "last")))
			b.Must(tx.Commit())
			Equal(b, "rows", b.Rows(), 1)
		}},
	}
}

// hidden is something that can run statements, whose type does not show whether it is a transaction.
type hidden struct{ by statements }

type statements interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (h *hidden) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return h.by.ExecContext(ctx, query, args...)
}

func (h *hidden) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return h.by.QueryContext(ctx, query, args...)
}
