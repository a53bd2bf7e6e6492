package sqlboxes

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/outbox"
)

// A transaction that has begun to read sees the leases as they were then, on some databases and levels. If reading takes longer than a
// lease, the relay must not take its own leases, which it has renewed since, for lost.
func TestReadingLongerThanLease(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name    string
		open    func(testing.TB) *lab.Database
		dialect dialect.Dialect
		setting string // of connections
	}{
		{"PostgreSQL", lab.Postgres, dialect.Postgres, ""},
		{"MariaDB", lab.MariaDB, dialect.MySQL, ""},
		{"MySQL", lab.MySQL, dialect.MySQL, ""},
		{"MySQLStatements", lab.MySQL, dialect.MySQL, statements},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d := s.open(t)
			db := d.Open(t)
			if err := s.dialect.Migrate(kit.Context(t), db); err != nil {
				t.Fatal(err)
			}
			changed := *d
			if s.setting != "" {
				changed.Source = withSetting(d.Source, s.setting)
			}
			const tries = 5
			for i := range tries {
				err := slowRelay{t, &changed, db, s.dialect, shortLease << i}.try()
				if err == nil {
					return
				}
				if !errors.Is(err, errStandstill) {
					t.Fatal(err)
				}
			}
			t.Fatalf("inconclusive: %d times %v", tries, errStandstill)
		})
	}
}

// errStandstill means that the test's relay had no chance to renew its leases.
var errStandstill = errors.New("the machine stood still for longer than a lease")

// slowRelay is a relay whose look at the messages takes longer than its leases.
type slowRelay struct {
	t        testing.TB
	database *lab.Database
	direct   *sql.DB
	dialect  dialect.Dialect
	lease    time.Duration
}

// shortLease is doubled where the machine is too slow to renew one in time.
const shortLease = 4 * time.Second

// try has one message published.
func (s slowRelay) try() error {
	s.t.Helper()
	ctx := kit.Context(s.t)
	p, err := proxy.New(s.database.Address(s.t))
	if err != nil {
		return err
	}
	defer p.Close()
	pass, held := make(chan struct{}), make(chan struct{}, 100)
	// With this the relay asks for its leases after it has read.
	p.SetPlan(func(int) proxy.Plan {
		return proxy.Plan{Trap: proxy.Trap{Text: "SELECT COUNT(*), ", Hold: pass, Sprung: func() { held <- struct{}{} }}}
	})
	db, err := sql.Open(s.database.Driver, s.database.Through(s.t, p.Addr()))
	if err != nil {
		return err
	}
	defer db.Close()
	client := kit.Open(s.t, rehop.Config{URL: lab.Single(s.t).URL})
	got := make(chan *rehop.Delivery, 10)
	kit.Subscribe(s.t, client, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
	faults := make(faultHook, 1000)
	running, stop := context.WithCancel(ctx)
	var relaying sync.WaitGroup
	relaying.Go(func() {
		relay := outbox.Relay{Client: client, DB: db, Dialect: s.dialect, Lease: s.lease, Hooks: []outbox.Hooks{{OnFault: faults.OnFault}}, Logger: slog.New(slog.DiscardHandler)}
		if err := relay.Run(running); err != nil {
			s.t.Errorf("relay: got %v, want nil", err)
		}
	})
	defer relaying.Wait()
	defer stop()
	if err := outbox.New(s.dialect).PublishNow(ctx, s.direct, rehop.Message{Key: "q"}); err != nil {
		return err
	}
	kit.Receive(s.t, held, "look of the relay")
	if err := s.awaitEnd(ctx); err != nil {
		return err
	}
	close(pass)
	kit.Receive(s.t, got, "message")
	for {
		select {
		case err := <-faults:
			if strings.Contains(err.Error(), "another relay has a lease") {
				return err
			}
		default:
			return nil
		}
	}
}

// awaitEnd waits until the leases have ended that the relay has now, if it does not renew them.
func (s slowRelay) awaitEnd(ctx context.Context) error {
	var end int64
	if err := s.direct.QueryRowContext(ctx, "SELECT MAX(expires) FROM rehop_outbox_lease").Scan(&end); err != nil {
		return err
	}
	for {
		var now, first int64
		if err := s.direct.QueryRowContext(ctx, "SELECT "+s.dialect.Now()+", MIN(expires) FROM rehop_outbox_lease").Scan(&now, &first); err != nil {
			return err
		}
		switch {
		case first <= now:
			return errStandstill
		case now > end:
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
}
