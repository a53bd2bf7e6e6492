package relaying

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
)

// TestInbox measures what an inbox adds to a handler's transaction.
func TestInbox(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	if err := dialect.Postgres.Migrate(ctx, b.db); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(ctx, "CREATE TABLE effect (name TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	const effect = "INSERT INTO effect (name) VALUES ($1)"
	bare := rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // of no effect after Commit
		if _, err := tx.ExecContext(ctx, effect, d.ID); err != nil {
			return err
		}
		return tx.Commit()
	})
	in := inbox.Inbox{DB: b.db, Dialect: dialect.Postgres}
	once := in.Middleware("bench")(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		_, err := inbox.Tx(ctx).ExecContext(ctx, effect, d.ID)
		return err
	}))
	handlers := []struct {
		name    string
		handler rehop.Handler
	}{{"transaction alone", bare}, {"with inbox", once}, {"a duplicate", nil}}
	took := make([][]float64, len(handlers))
	for round := range *rounds {
		for i, h := range handlers {
			handler := h.handler
			if handler == nil {
				handler = once // those of the one before
			}
			began := time.Now()
			for n := range *handled {
				d := &rehop.Delivery{Message: rehop.Message{ID: fmt.Sprint(round, "-", n)}}
				if err := handler.Handle(ctx, d); err != nil {
					t.Fatal(err)
				}
			}
			took[i] = append(took[i], float64(time.Since(began).Microseconds())/float64(*handled))
		}
	}
	var effects int
	if err := b.pool.QueryRow(ctx, "SELECT COUNT(*) FROM effect").Scan(&effects); err != nil {
		t.Fatal(err)
	}
	if want := 2 * *rounds * *handled; effects != want {
		t.Errorf("effects: got %d, want %d", effects, want)
	}
	fmt.Printf("\nOne message after the other, each with one INSERT of its handler, on PostgreSQL; %d rounds of %d messages.\n", *rounds, *handled)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "handler\tµs/message\t(min–max)\t")
	for i, h := range handlers {
		fmt.Fprintf(w, "%s\t%.0f\t(%.0f–%.0f)\t\n", h.name, median(took[i]), slices.Min(took[i]), slices.Max(took[i]))
	}
	_ = w.Flush()
}
