package outbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// careEvery is how often a relay looks after the tables.
const careEvery = time.Second

// care deletes what was kept long enough, forgets relays that are dead, and counts what is there. The holder of the first lease does it.
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

// cleanSome is how many rows are deleted at once, so that nobody waits for long.
const cleanSome = 1000

func (r *run) clean(ctx context.Context) {
	_, err := r.DB.ExecContext(ctx, "DELETE FROM rehop_outbox_relay WHERE expires < "+r.Dialect.Now()+" - 60000000")
	for n := cleanSome; err == nil && n == cleanSome; {
		n, err = r.deleteKept(ctx)
	}
	switch {
	case err == nil:
		r.told.well("delete what was kept")
	case ctx.Err() == nil:
		r.told.fault("delete what was kept", err)
	}
}

// deleteKept deletes some of those that were kept long enough, and tells how many it has found.
func (r *run) deleteKept(ctx context.Context) (found int, err error) {
	old, err := r.numbers(ctx, fmt.Sprintf("SELECT id FROM rehop_outbox WHERE state = 4 AND shard IN (%s) AND due <= %s LIMIT %d", allShards(), r.Dialect.Now(), cleanSome))
	if err != nil || len(old) == 0 {
		return 0, err
	}
	query, args := sqltext.DeleteRows(r.Dialect, "rehop_outbox", "id", old, "state = 4")
	_, err = r.exec(ctx, query, args...)
	return len(old), err
}

// numbers reads a column of numbers.
func (r *run) numbers(ctx context.Context, query string) (found []int64, err error) {
	err = r.steadily(ctx, func(db session) error {
		found, err = readNumbers(ctx, db, query)
		return err
	})
	return found, err
}

// allShards lists them, so that databases use the index.
func allShards() string {
	all := make([]string, shards)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return strings.Join(all, ", ")
}

func (r *run) survey(ctx context.Context) {
	backlog, err := count(ctx, r.DB, r.Dialect)
	switch {
	case err == nil:
		r.told.well("count messages")
		tell(r.hooks.backlog, func(h BacklogHook) { h.OnBacklog(backlog) })
	case ctx.Err() == nil:
		r.told.fault("count messages", err)
	}
}

// What count tells apart: where messages are, as the numbers of states, and those that were tried in vain and will be tried again.
const (
	countedReady = iota
	countedRetrying
	countedDelayed
	countedAside
	countedKept
)

// count counts the messages of an outbox. One whose delay is over is ready since then.
func count(ctx context.Context, db querier, d dialect.Dialect) (Backlog, error) {
	var b Backlog
	query := fmt.Sprintf("SELECT CASE WHEN state = 3 THEN %d WHEN state = 4 THEN %d WHEN attempts > 0 THEN %d WHEN state = 2 AND due > %[6]s THEN %[4]d ELSE %[5]d END, "+
		"COUNT(*), %[6]s - MIN(CASE WHEN state = 2 AND attempts = 0 THEN due ELSE created END) FROM rehop_outbox GROUP BY 1",
		countedAside, countedKept, countedRetrying, countedDelayed, countedReady, d.Now())
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return b, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind, n int
		var age int64
		if err := rows.Scan(&kind, &n, &age); err != nil {
			return b, err
		}
		switch kind {
		case countedReady:
			b.Ready = n
		case countedRetrying:
			b.Retrying = n
		case countedDelayed:
			b.Delayed = n
		case countedAside:
			b.SetAside = n
		case countedKept:
			b.Kept = n
		}
		if kind == countedReady || kind == countedRetrying {
			b.Oldest = max(b.Oldest, time.Duration(age)*time.Microsecond)
		}
	}
	return b, rows.Err()
}
