package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/sqltext"
)

// careEvery is how often a relay maintains the tables.
const careEvery = time.Second

// care deletes kept messages that have expired and relays that are dead, and counts messages. The relay with the first lease does it.
func (r *run) care(ctx context.Context) {
	ticker := time.NewTicker(min(careEvery, r.Survey))
	defer ticker.Stop()
	var clean, survey time.Time
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if !r.leases.holds(0) {
			continue
		}
		now := time.Now()
		if !now.Before(clean) {
			r.clean(ctx)
			clean = time.Now().Add(max(careEvery, sweepEffort*time.Since(now)))
		}
		if now = time.Now(); len(r.hooks.backlog) > 0 && !now.Before(survey) {
			r.survey(ctx)
			survey = now.Add(max(r.Survey, sweepEffort*time.Since(now)))
		}
	}
}

// careLimit is how long one task may take: the connection may have died silently.
const careLimit = time.Minute

// cleanSome is how many rows are deleted at once, so that other statements do not wait for long.
const cleanSome = 1000

// clean deletes what has expired. When stopping ends, it completes what it has begun.
func (r *run) clean(stopping context.Context) {
	ctx, done := r.finishing(stopping, careLimit)
	defer done()
	err := r.forgetRelays(ctx)
	for n := cleanSome; err == nil && n == cleanSome && stopping.Err() == nil; {
		n, err = r.deleteKept(ctx)
	}
	switch {
	case err == nil:
		r.faults.resolve("delete what was kept")
	case ctx.Err() == nil:
		r.faults.report("delete what was kept", err)
	}
}

// forgetRelays deletes the rows of relays that are dead. A relay that was stopped in the middle of a transaction keeps its row locked.
func (r *run) forgetRelays(ctx context.Context) error {
	table, dead := r.sql.Table("outbox_relay"), "expires < "+r.Dialect.Now()+" - 60000000"
	owners, err := readAll(ctx, r.DB, "SELECT owner FROM "+table+" WHERE "+dead, nil, func(rows *sql.Rows) (owner string, err error) { return owner, rows.Scan(&owner) })
	if err != nil {
		return err
	}
	for _, owner := range owners {
		err := within(ctx, r.DB, r.sql, r.level, r.sql.Steady(), func(tx session) error {
			if r.sql.HasRowLocks() {
				free, err := readNumbers(ctx, tx, r.Dialect.Bind("SELECT 1 FROM "+table+" WHERE owner = ? FOR UPDATE SKIP LOCKED"), owner)
				if err != nil || len(free) == 0 {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, r.Dialect.Bind("DELETE FROM "+table+" WHERE owner = ? AND "+dead), owner)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteKept deletes some kept messages that have expired, and returns how many it found.
func (r *run) deleteKept(ctx context.Context) (found int, err error) {
	var old []sqltext.Row
	query := fmt.Sprintf("SELECT id, nonce FROM %s WHERE state = 4 AND shard IN (%s) AND due <= %s LIMIT %d", r.sql.Table("outbox"), allShards(), r.Dialect.Now(), cleanSome)
	err = r.steadily(ctx, func(db session) (err error) {
		old, err = readRowIDs(ctx, db, query)
		return err
	})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	query, args := r.sql.DeleteRows(old, "state = 4")
	_, err = r.exec(ctx, query, args...)
	return len(old), err
}

// allShards is a list of all shards for SQL, so that databases use the index.
func allShards() string {
	all := make([]string, shards)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return strings.Join(all, ", ")
}

// survey counts the messages. It locks nothing.
func (r *run) survey(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, careLimit)
	defer cancel()
	backlog, err := count(ctx, r.DB, r.sql)
	switch {
	case err == nil:
		r.faults.resolve("count messages")
		emit(r.hooks.backlog, backlog)
	case ctx.Err() == nil:
		r.faults.report("count messages", err)
	}
}

// MaxCounted is the largest count in a Backlog, so that counting never takes long. A count of MaxCounted means "that many or more".
const MaxCounted = 100_000

// counted is one kind of message in a Backlog.
type counted struct {
	of        func(*Backlog) *int
	condition string
	since     string // the column from which the age is measured; 0: see oldest
}

func kinds(now string) []counted {
	ready, retrying := func(b *Backlog) *int { return &b.Ready }, func(b *Backlog) *int { return &b.Retrying }
	return []counted{
		{ready, "state = 0", "0"},
		{ready, "state = 1 AND due = 0", "0"},
		{ready, "state = 2 AND due <= " + now + " AND attempts = 0", "0"}, // its delay is over
		{retrying, "state = 1 AND due > 0", "created"},
		{retrying, "state = 2 AND attempts > 0", "created"},
		{func(b *Backlog) *int { return &b.Delayed }, "state = 2 AND due > " + now + " AND attempts = 0", "0"},
		{func(b *Backlog) *int { return &b.SetAside }, "state = 3", "0"},
		{func(b *Backlog) *int { return &b.Kept }, "state = 4", "0"},
	}
}

// oldest returns queries for the ages of ready messages: the first ones of each shard, by the index.
func oldest(text sqltext.SQL) (all []string) {
	for shard := range shards {
		for _, lane := range []struct{ condition, since string }{
			{"state = 0 AND shard = %d AND due = 0", "created"}, {"state = 1 AND shard = %d AND due = 0", "created"},
			{"state = 2 AND shard = %d AND due <= " + text.Now(), "CASE WHEN attempts = 0 THEN due ELSE created END"},
		} {
			first := fmt.Sprintf("SELECT %s AS since FROM %s WHERE "+lane.condition+" ORDER BY due, id LIMIT 1", lane.since, text.Work(), shard)
			all = append(all, fmt.Sprintf("SELECT -1, 0, %s - since FROM (%s) AS first", text.Now(), first))
		}
	}
	return all
}

// count counts the messages of an outbox with one statement, because a message can change its kind at any time.
func count(ctx context.Context, db *sql.DB, text sqltext.SQL) (b Backlog, err error) {
	all := kinds(text.Now())
	parts := oldest(text)
	for i, kind := range all {
		age := "0"
		if kind.since != "0" {
			age = "COALESCE(" + text.Now() + " - MIN(since), 0)"
		}
		parts = append(parts, fmt.Sprintf("SELECT %d, COUNT(*), %s FROM (SELECT %s AS since FROM %s WHERE shard IN (%s) AND %s LIMIT %d) AS counted",
			i, age, kind.since, text.Work(), allShards(), kind.condition, MaxCounted))
	}
	err = steadily(ctx, db, text, func(db session) error {
		_, err := readAll(ctx, db, strings.Join(parts, " UNION ALL "), nil, func(rows *sql.Rows) (bool, error) {
			var kind, n int
			var age int64
			if err := rows.Scan(&kind, &n, &age); err != nil {
				return false, err
			}
			if kind >= 0 {
				total := all[kind].of(&b)
				*total = min(*total+n, MaxCounted)
			}
			b.Oldest = max(b.Oldest, time.Duration(age)*time.Microsecond)
			return true, nil
		})
		return err
	})
	return b, err
}
