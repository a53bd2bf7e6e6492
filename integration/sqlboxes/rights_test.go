package sqlboxes

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox"
)

// Each part works with the rights that docs/outbox.md lists, and no more.
func TestRights(t *testing.T) {
	t.Parallel()
	ctx := kit.Context(t)
	d := lab.Postgres(t)
	owner := d.Open(t)
	if err := dialect.Postgres.Migrate(ctx, owner); err != nil {
		t.Fatal(err)
	}
	as := func(part string, rights ...string) *lab.Database {
		t.Helper()
		role := fmt.Sprintf("%s_%d", part, time.Now().UnixNano())
		statements := []string{fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'", role), "GRANT USAGE ON SCHEMA public TO " + role, "CREATE TABLE IF NOT EXISTS effect (name TEXT)", "GRANT ALL ON effect TO " + role}
		for _, right := range rights {
			statements = append(statements, "GRANT "+right+" TO "+role)
		}
		for _, s := range statements {
			if _, err := owner.ExecContext(ctx, s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		t.Cleanup(func() {
			_, err := owner.ExecContext(context.Background(), "DROP OWNED BY "+role)
			if err == nil {
				_, err = owner.ExecContext(context.Background(), "DROP ROLE "+role)
			}
			if err != nil {
				t.Errorf("drop role %s: %v", role, err)
			}
		})
		u, err := url.Parse(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "secret")
		limited := *d
		limited.Source = u.String()
		return &limited
	}
	writer := as("writer", "INSERT ON rehop_outbox", "SELECT ON rehop_outbox_relay").Open(t)
	relaying := as("relay", "SELECT, UPDATE, DELETE ON rehop_outbox", "SELECT, INSERT, UPDATE ON rehop_outbox_lease",
		"SELECT, INSERT, UPDATE, DELETE ON rehop_outbox_relay", "UPDATE ON SEQUENCE rehop_outbox_barrier", "SELECT ON rehop_migration").Open(t)
	handling := as("handler", "SELECT, INSERT, UPDATE, DELETE ON rehop_inbox").Open(t)

	client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
	handled := make(chan string, 10)
	duplicates := make(duplicateHook, 10)
	in := inbox.Inbox{DB: handling, Dialect: dialect.Postgres, OnDuplicate: duplicates.OnDuplicate}
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "q", Middleware: []rehop.Middleware{in.Middleware("")}, Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		handled <- d.ID
		_, err := inbox.Tx(ctx).ExecContext(ctx, "INSERT INTO effect (name) VALUES ($1)", d.ID)
		return err
	})})
	running, stop := context.WithCancel(context.Background())
	var relay sync.WaitGroup
	relay.Go(func() {
		if err := (outbox.Relay{Client: client, DB: relaying, Dialect: dialect.Postgres, Logger: slog.New(slog.DiscardHandler)}).Run(running); err != nil {
			t.Errorf("relay: got %v, want nil", err)
		}
	})
	defer relay.Wait()
	defer stop()
	for i := range 3 {
		m := rehop.Message{ID: fmt.Sprint(i), Key: "q", OrderKey: "k"}
		if err := outbox.New(dialect.Postgres).PublishNow(ctx, writer, m); err != nil {
			t.Fatalf("publish: got %v, want nil", err)
		}
		if id := kit.Receive(t, handled, "message"); id != m.ID {
			t.Errorf("got %q, want %q", id, m.ID)
		}
	}
	if err := client.Publish(ctx, rehop.Message{ID: "0", Key: "q"}); err != nil {
		t.Fatal(err)
	}
	if id := kit.Receive(t, duplicates, "duplicate"); id != "0" {
		t.Errorf("duplicate: got %q, want 0", id)
	}
}

// duplicateHook keeps the ids of duplicates.
type duplicateHook chan string

func (h duplicateHook) OnDuplicate(_ context.Context, _ string, d *rehop.Delivery) { h <- d.ID }
