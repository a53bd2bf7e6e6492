package sqlboxes

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/outbox"
)

// Connections to the database die without a word, as when its machine is lost or a failover moves its address. The relays find new ones,
// and do not stand still with their leases until the operating system gives up.
func TestVanished(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) (*lab.Database, dialect.Dialect){
		"PostgreSQL": func(t testing.TB) (*lab.Database, dialect.Dialect) { return lab.Postgres(t), dialect.Postgres },
		"MariaDB":    func(t testing.TB) (*lab.Database, dialect.Dialect) { return lab.MariaDB(t), dialect.MySQL },
		"MySQL":      func(t testing.TB) (*lab.Database, dialect.Dialect) { return lab.MySQL(t), dialect.MySQL },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, speaks := open(t)
			direct := d.Open(t)
			if err := speaks.Migrate(kit.Context(t), direct); err != nil {
				t.Fatal(err)
			}
			p, err := proxy.New(d.Address(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
			got := make(chan string, 100)
			kit.Subscribe(t, client, rehop.Subscription{Queue: "q", Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				got <- d.ID
				return nil
			})})
			ctx, stop := context.WithCancel(context.Background())
			var relays sync.WaitGroup
			for range 2 {
				db, err := sql.Open(d.Driver, d.Through(t, p.Addr()))
				if err != nil {
					t.Fatal(err)
				}
				db.SetMaxIdleConns(4)
				relays.Go(func() {
					defer db.Close()
					relay := outbox.Relay{Client: client, DB: db, Dialect: speaks, Logger: slog.New(slog.DiscardHandler)}
					if err := relay.Run(ctx); err != nil {
						t.Errorf("relay: got %v, want nil", err)
					}
				})
			}
			defer relays.Wait()
			defer p.Thaw()
			defer stop()
			put := func(id string) {
				t.Helper()
				if err := outbox.New(speaks).PublishNow(kit.Context(t), direct, outbox.Message{Message: rehop.Message{ID: id, Key: "q"}}); err != nil {
					t.Fatal(err)
				}
			}
			put("before")
			if id := kit.Receive(t, got, "message before"); id != "before" {
				t.Errorf("got %q, want before", id)
			}
			p.Strand()
			missing := make(map[string]bool)
			for i := range 16 {
				missing[fmt.Sprint(i)] = true
				put(fmt.Sprint(i))
			}
			for len(missing) > 0 {
				delete(missing, kit.Receive(t, got, fmt.Sprintf("message after the connections died; %d are missing", len(missing))))
			}
		})
	}
}
