package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrUnfit means that the connections of a pool have a setting that outbox and inbox cannot work with.
var ErrUnfit = errors.New("connections to the database are not fit for rehop")

// CheckSession returns ErrUnfit if the connections of a pool have settings that outbox and inbox cannot work with. It asks one of them.
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
		faults = append(faults, fmt.Errorf("%w: they have autocommit=0, so statements outside of a transaction are never committed: give rehop a pool with autocommit=1", ErrUnfit))
	}
	if safe != 0 {
		faults = append(faults, fmt.Errorf("%w: they have sql_safe_updates=1, so the server refuses some of rehop's statements: give rehop a pool with sql_safe_updates=0", ErrUnfit))
	}
	return errors.Join(faults...)
}
