//go:build !race

package triaging

import (
	"testing"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// A process took the lease while the clock of the database was wrong, and was killed. Another one works, although the lease seems to last for a year.
func TestSQLiteLeaseOfTheFuture(t *testing.T) {
	t.Parallel()
	d := openSQLite(t)
	c := newScene(t, setting{rabbit: lab.Embedded(t), database: d, dialect: dialect.SQLite, silent: true, change: func(*triage.ServiceConfig) {
		_, err := d.Open(t).ExecContext(t.Context(), "INSERT INTO rehop_triage_lease (name, owner, expires) VALUES (?, ?, ?)", []byte("service"), []byte("killed"), time.Now().AddDate(1, 0, 0).UnixMicro())
		if err != nil {
			t.Fatal(err)
		}
	}})
	c.fail(0, 3)
	c.indexed("state:failed", 3)
}

// A transaction of somebody else takes longer than the lease. The process that works keeps it: nothing was killed.
func TestSQLiteLeaseDuringLongTransaction(t *testing.T) {
	t.Parallel()
	d := openSQLite(t)
	b := newWorkbench(t, lab.Embedded(t), d)
	defer b.work()()
	working, _ := b.lease(0)
	other, closeStore, err := openStore(b.ctx, d) // of another process
	b.must(err)
	defer closeStore()
	b.store = other
	defer b.work()()
	for range 3 {
		lock, err := b.db.Conn(b.ctx)
		b.must(err)
		_, err = lock.ExecContext(b.ctx, "BEGIN IMMEDIATE")
		b.must(err)
		_, expires := b.lease(0)
		lab.Eventually(t, limit, "the lease has expired, and both wait", func() bool { return time.Now().UnixMicro() > expires+1_500_000 })
		_, err = lock.ExecContext(b.ctx, "COMMIT")
		b.must(err)
		b.must(lock.Close())
		if owner, _ := b.lease(expires); owner != working {
			t.Fatal("another process has the lease, although the first one works")
		}
	}
}
