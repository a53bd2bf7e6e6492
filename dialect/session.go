package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrUnfit is about connections with a setting that outbox and inbox cannot work with.
var ErrUnfit = errors.New("connections to the database are not fit for rehop")

// CheckSession says whether the connections of a pool are set up so that outbox and inbox can work with them: ErrUnfit if not. It
// asks one of them.
func (d Dialect) CheckSession(ctx context.Context, db *sql.DB) error {
	if err := d.Check(); err != nil || d != MySQL {
		return err
	}
	var commits, safe int
	if err := db.QueryRowContext(ctx, "SELECT @@autocommit, @@sql_safe_updates").Scan(&commits, &safe); err != nil {
		return fmt.Errorf("read settings of the connection: %w", err)
	}
	var faults []error
	if commits == 0 {
		faults = append(faults, fmt.Errorf("%w: they have autocommit=0, by which what is done outside of a transaction is never committed: give rehop a pool with autocommit=1", ErrUnfit))
	}
	if safe != 0 {
		faults = append(faults, fmt.Errorf("%w: they have sql_safe_updates=1, by which the server refuses some of rehop's statements: give rehop a pool with sql_safe_updates=0", ErrUnfit))
	}
	return errors.Join(faults...)
}
