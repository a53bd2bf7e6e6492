package triage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// leaseAhead is how many times as long as it lasts a lease can be ahead of the database's clock. One that is further ahead was taken before that clock was
// set back: nobody knows when its process was killed.
const leaseAhead = 10

// leaseName is the name of the right to work.
const leaseName = "service"

// renew renews the right to work of a process that has it. It does not wait for its turn, which can take longer than the right lasts: others fix the set of a
// large run in one transaction.
func (s *Store) renew(ctx context.Context, owner string, lasts time.Duration) (renewed bool, err error) {
	result, err := s.db.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("lease")+" SET expires = "+s.sql.Now()+" + ? WHERE name = ? AND owner = ?"), lasts.Microseconds(), []byte(leaseName), []byte(owner))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// acquire gives a process the right to work, or renews it, if no other process has it. Two processes can both believe that they have it for a moment;
// what must not happen twice is checked again in the transaction that decides about it. spares reports whether a right that has expired is left to its owner.
func (s *Store) acquire(ctx context.Context, owner string, lasts time.Duration, spares func(expires int64) bool) (acquired bool, err error) {
	type lease struct {
		owner   []byte
		expires int64
	}
	err = s.write(ctx, func(w *writer) error {
		acquired = false
		table := s.table("lease")
		found, err := readAll(ctx, w, s.sql.Bind("SELECT owner, expires FROM "+table+" WHERE name = ?"), []any{[]byte(leaseName)}, func(rows *sql.Rows) (l lease, err error) {
			return l, rows.Scan(&l.owner, &l.expires)
		})
		if err != nil {
			return err
		}
		expires := w.now + lasts.Microseconds()
		if len(found) == 0 {
			acquired = true
			_, err = w.ExecContext(ctx, s.sql.Bind("INSERT INTO "+table+" (name, owner, expires) VALUES (?, ?, ?)"), []byte(leaseName), []byte(owner), expires)
			return err
		}
		now := found[0]
		expired := now.expires < w.now && !spares(now.expires) || now.expires > w.now+leaseAhead*lasts.Microseconds()
		if string(now.owner) != owner && !expired {
			return nil
		}
		// Its owner may have renewed it since it was read.
		result, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+table+" SET owner = ?, expires = ? WHERE name = ? AND owner = ? AND expires = ?"), []byte(owner), expires, []byte(leaseName), now.owner, now.expires)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		acquired = n == 1
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

// errDisplaced: another process works on runs.
var errDisplaced = errors.New("another process works on runs now")

// holds returns errDisplaced if another process has the right to work.
func (s *Service) holds(ctx context.Context, w *writer) error {
	if s.config.Alone {
		return nil
	}
	var owner []byte
	if err := w.QueryRowContext(ctx, s.store.sql.Bind("SELECT owner FROM "+s.store.table("lease")+" WHERE name = ?"), []byte(leaseName)).Scan(&owner); err != nil {
		return fmt.Errorf("who may work on runs: %w", err)
	}
	if string(owner) != s.owner {
		return errDisplaced
	}
	return nil
}
