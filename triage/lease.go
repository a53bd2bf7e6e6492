package triage

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// acquire gives a process the right to work, or renews it, if no other process has it. Two processes can both believe that they have it for a moment: that
// is harmless, because one sweep at a time reads a queue.
func (s *Store) acquire(ctx context.Context, owner string, lasts time.Duration) (acquired bool, err error) {
	const name = "service"
	type lease struct {
		owner   []byte
		expires int64
	}
	err = s.write(ctx, func(w *writer) error {
		table := s.table("lease")
		found, err := readAll(ctx, w, s.sql.Bind("SELECT owner, expires FROM "+table+" WHERE name = ?"), []any{[]byte(name)}, func(rows *sql.Rows) (l lease, err error) {
			return l, rows.Scan(&l.owner, &l.expires)
		})
		if err != nil {
			return err
		}
		expires := w.now + lasts.Microseconds()
		if len(found) == 0 {
			_, err = w.ExecContext(ctx, s.sql.Bind("INSERT INTO "+table+" (name, owner, expires) VALUES (?, ?, ?)"), []byte(name), []byte(owner), expires)
		} else if acquired = string(found[0].owner) == owner || found[0].expires < w.now; acquired {
			_, err = w.ExecContext(ctx, s.sql.Bind("UPDATE "+table+" SET owner = ?, expires = ? WHERE name = ?"), []byte(owner), expires, []byte(name))
		}
		acquired = acquired || len(found) == 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("triage: acquire the right to work: %w", err)
	}
	return acquired, nil
}

// release lets another process work at once.
func (s *Store) release(ctx context.Context, owner string) error {
	return s.write(ctx, func(w *writer) error {
		_, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("lease")+" SET expires = 0 WHERE owner = ?"), []byte(owner))
		return err
	})
}
