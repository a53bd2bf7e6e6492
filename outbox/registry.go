package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/sqltext"
)

// registry is the tables with which relays share the work. All times are by the database's clock.
type registry struct {
	run        *run
	registered bool // this relay has a row in the table of relays, as far as it knows
}

// entry is a row of the table of leases.
type entry struct {
	shard int
	owner string
	left  int64 // microseconds until it ends
}

func (r *registry) exec(ctx context.Context, query string, args ...any) (changed int, err error) {
	return execOn(ctx, r.run.DB, query, args)
}

// restore inserts rows of the migration that were deleted: without them no order can be kept.
func (r *registry) restore(ctx context.Context) error {
	query := r.run.sql.Buckets()
	if query == "" {
		return nil
	}
	there, err := readNumbers(ctx, r.run.DB, query)
	if err != nil {
		return err
	}
	has := make(map[int64]bool, len(there))
	for _, bucket := range there {
		has[bucket] = true
	}
	var missing []int64
	for bucket := range int64(sqltext.OrderBuckets) {
		if !has[bucket] {
			missing = append(missing, bucket)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	query, args := r.run.sql.InsertBuckets(missing)
	_, err = r.exec(ctx, query, args...)
	return err
}

// untilNext is the end of a lease that is taken or renewed now.
func (r *registry) untilNext() string {
	return fmt.Sprintf("%s + %d", r.run.Dialect.Now(), r.run.Lease.Microseconds())
}

// register records that this relay is alive, and whether it wants to be notified of new messages.
func (r *registry) register(ctx context.Context, listening bool) error {
	wants := 0
	if listening {
		wants = 1
	}
	if r.registered {
		n, err := r.exec(ctx, r.run.Dialect.Bind("UPDATE "+r.run.sql.Table("outbox_relay")+" SET expires = "+r.untilNext()+", listening = ? WHERE owner = ?"), wants, r.run.name.get())
		if err != nil || n > 0 {
			return err
		}
	}
	// It is not there yet, or was considered dead.
	insert := r.run.sql.InsertNew("outbox_relay", "owner, expires, listening", "?, "+r.untilNext()+", ?")
	r.registered = true // also after an error: the answer may have been lost
	_, err := r.exec(ctx, r.run.Dialect.Bind(insert), r.run.name.get(), wants)
	return err
}

// rename gives the relay a new name if its own row is locked. No other relay locks it: a transaction of this relay does, on a connection
// that died silently, and the database may keep the lock for hours.
func (r *registry) rename(ctx context.Context) error {
	if !r.registered || !r.run.sql.HasRowLocks() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.run.Lease/2)
	defer cancel()
	old := r.run.name.get()
	query := r.run.Dialect.Bind("SELECT 1 FROM " + r.run.sql.Table("outbox_relay") + " WHERE owner = ?")
	there, err := readNumbers(ctx, r.run.DB, query, old)
	if err != nil || len(there) == 0 {
		return err
	}
	free, err := readNumbers(ctx, r.run.DB, query+" FOR UPDATE SKIP LOCKED", old)
	if err != nil || len(free) > 0 {
		return err
	}
	r.run.name.change()
	r.registered = false
	r.run.Logger.Warn("outbox: a lost connection still locks the row of this relay; the relay continues under a new name", "relay", old, "new", r.run.name.get())
	return nil
}

// unregister is the reverse of register.
func (r *registry) unregister(ctx context.Context) error {
	if !r.registered {
		return nil
	}
	_, err := r.exec(ctx, r.run.Dialect.Bind("DELETE FROM "+r.run.sql.Table("outbox_relay")+" WHERE owner = ?"), r.run.name.get())
	r.registered = err != nil
	return err
}

// read returns the leases, and how many relays are alive.
func (r *registry) read(ctx context.Context) (table []entry, living int, err error) {
	now := r.run.Dialect.Now()
	query := "SELECT shard, owner, expires - " + now + " FROM " + r.run.sql.Table("outbox_lease") + " ORDER BY shard"
	table, err = readAll(ctx, r.run.DB, query, nil, func(rows *sql.Rows) (e entry, err error) { return e, rows.Scan(&e.shard, &e.owner, &e.left) })
	if err != nil {
		return nil, 0, err
	}
	err = r.run.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+r.run.sql.Table("outbox_relay")+" WHERE expires > "+now).Scan(&living)
	return table, max(living, 1), err
}

// owned returns the leases that belong to this relay by the table.
func (r *registry) owned(ctx context.Context) (all []int, err error) {
	query := r.run.Dialect.Bind("SELECT shard FROM " + r.run.sql.Table("outbox_lease") + " WHERE owner = ? ORDER BY shard")
	return readAll(ctx, r.run.DB, query, []any{r.run.name.get()}, func(rows *sql.Rows) (shard int, err error) { return shard, rows.Scan(&shard) })
}

// acquire takes leases that have ended, or that this relay owns.
func (r *registry) acquire(ctx context.Context, wanted []int) error {
	return r.change(ctx, "owner = ?, term = term + 1, expires = "+r.untilNext(), []any{r.run.name.get()}, wanted, "(expires <= "+r.run.Dialect.Now()+" OR owner = ?)")
}

// prolong renews leases that have not ended.
func (r *registry) prolong(ctx context.Context, held []int) error {
	return r.change(ctx, "expires = "+r.untilNext(), nil, held, "expires > "+r.run.Dialect.Now()+" AND owner = ?")
}

// release returns leases. If it fails, they expire.
func (r *registry) release(ctx context.Context, given []int) error {
	return r.change(ctx, "owner = '', term = term + 1, expires = 0", nil, given, "owner = ?")
}

// change changes leases that meet a condition. The argument of the condition is the name of this relay.
func (r *registry) change(ctx context.Context, set string, values []any, some []int, condition string) error {
	if len(some) == 0 {
		return nil
	}
	ids := make([]int64, len(some))
	for i, shard := range some {
		ids[i] = int64(shard)
	}
	slices.Sort(ids) // so that two relays do not deadlock
	query, args := r.run.sql.UpdateLeases(ids, set, values, condition, r.run.name.get())
	_, err := r.exec(ctx, query, args...)
	return err
}
