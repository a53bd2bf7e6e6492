package periodic

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/rehoptest"
)

// Three processes start the job, and the first attempt of each period fails after it has published the next tick. All
// periods are published once.
func TestOncePerPeriod(t *testing.T) {
	const period, periods = 200 * time.Millisecond, 8
	b := rehoptest.Open(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "inbox.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := dialect.SQLite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}

	attempts := make(map[time.Time]int)
	attempting := make(chan struct{}, 1) // has room for whoever uses attempts
	done := make(chan time.Time, 1000)
	duplicates := make(chan string, 1000)
	for range 3 {
		client, err := rehop.Open(t.Context(), b.Config())
		if err != nil {
			t.Fatal(err)
		}
		job := Job{
			Queue: "report.ticks", Period: period, Client: client,
			Inbox: inbox.Inbox{DB: db, Dialect: dialect.SQLite, OnDuplicate: func(_ context.Context, _ string, d *rehop.Delivery) { duplicates <- d.ID }},
			Publish: func(_ context.Context, due time.Time) error {
				attempting <- struct{}{}
				attempts[due]++
				first := attempts[due] == 1
				<-attempting
				if first {
					return rehop.RetryAfter(100*time.Millisecond, errors.New("the process has crashed"))
				}
				done <- due
				return nil
			},
		}
		// All processes publish the first tick, whichever period it is by now.
		if _, err := job.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
	}

	published := make(map[time.Time]bool)
	for len(published) < periods {
		due := <-done
		if published[due] {
			t.Fatalf("the period %v was published twice", due)
		}
		if !due.Equal(due.Truncate(period)) {
			t.Errorf("%v is not the beginning of a period", due)
		}
		published[due] = true
	}
	<-duplicates // so the inbox had something to do
}
