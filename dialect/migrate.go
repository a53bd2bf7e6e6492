package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations
var migrationFiles embed.FS

// migration is one step from a version of the tables to the next.
//
// Programs of the version before go on working while a migration is applied and afterwards, and none holds a lock on a table with
// rows in it for longer than a moment: columns are added without rewriting a table, indexes without stopping writers.
type migration struct {
	version    int
	statements []string
}

// migrations are the steps from nothing to the newest version, in order.
func (d Dialect) migrations() ([]migration, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	dir := "migrations/" + string(d)
	entries, err := fs.ReadDir(migrationFiles, dir) // sorted by name
	if err != nil {
		return nil, err
	}
	all := make([]migration, 0, len(entries))
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", e.Name(), err)
		}
		text, err := fs.ReadFile(migrationFiles, dir+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version, split(string(text))})
	}
	return all, nil
}

// split cuts a script into statements, each with the comment before it: not all drivers take several at once.
func split(script string) []string {
	var all []string
	for s := range strings.SplitSeq(script, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// versionTable has a row for each migration that was applied.
const versionTable = "CREATE TABLE IF NOT EXISTS rehop_migration (version INTEGER NOT NULL PRIMARY KEY, applied BIGINT NOT NULL)"

func (d Dialect) recordVersion(version int) string {
	return fmt.Sprintf("INSERT INTO rehop_migration (version, applied) VALUES (%d, %s)", version, d.Now())
}

// SQL is a script that brings the tables from a version to the newest one, for those who apply migrations with a tool of their own;
// 0 is a database that has none of the tables.
func (d Dialect) SQL(after int) (string, error) {
	all, err := d.migrations()
	if err != nil {
		return "", err
	}
	var script strings.Builder
	write := func(statement string) { script.WriteString(statement + ";\n\n") }
	if after == 0 {
		write(versionTable)
	}
	for _, m := range all {
		if m.version <= after {
			continue
		}
		for _, s := range m.statements {
			write(s)
		}
		write(d.recordVersion(m.version))
	}
	return script.String(), nil
}

// Version is that of the tables in a database, 0 if there are none.
func (d Dialect) Version(ctx context.Context, db *sql.DB) (int, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return d.version(ctx, conn)
}

func (d Dialect) version(ctx context.Context, conn *sql.Conn) (int, error) {
	tables := map[Dialect]string{
		Postgres: "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('rehop_migration')",
		MySQL:    "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'rehop_migration'",
		SQLite:   "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'rehop_migration'",
	}
	var there, version int
	err := conn.QueryRowContext(ctx, tables[d]).Scan(&there)
	if err == nil && there > 0 {
		err = conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM rehop_migration").Scan(&version)
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of rehop's tables: %w", err)
	}
	return version, nil
}

// Newest is the version of the tables that this program knows.
func (d Dialect) Newest() int {
	all, err := d.migrations()
	if err != nil || len(all) == 0 {
		return 0
	}
	return all[len(all)-1].version
}

// Migrate brings the tables to the newest version. It can be called by many programs at once and does nothing where nothing is
// to be done, nor in a database whose tables are newer than this program.
func (d Dialect) Migrate(ctx context.Context, db *sql.DB) error {
	all, err := d.migrations()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := d.CheckSession(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer conn.Close()
	// Without a lock first: most programs find that nothing is to be done.
	if at, err := d.version(ctx, conn); err == nil && at >= all[len(all)-1].version {
		return nil
	}
	if err := d.exclusively(ctx, conn, func() error { return d.apply(ctx, conn, all) }); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func (d Dialect) apply(ctx context.Context, conn *sql.Conn, all []migration) error {
	if _, err := conn.ExecContext(ctx, versionTable); err != nil {
		return fmt.Errorf("create table rehop_migration: %w", err)
	}
	at, err := d.version(ctx, conn)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.version <= at {
			continue
		}
		for i, s := range append(m.statements, d.recordVersion(m.version)) {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return fmt.Errorf("version %d, statement %d: %w", m.version, i+1, err)
			}
		}
	}
	return nil
}

// migrationLock sets the advisory lock of migrations apart from those of others.
const migrationLock = "7308604759847661669"

// exclusively calls f while nobody else migrates. Where the database can undo a migration, an error of f does so; elsewhere each
// statement can be repeated.
func (d Dialect) exclusively(ctx context.Context, conn *sql.Conn, f func() error) (err error) {
	begin, commit, rollback := []string{"BEGIN IMMEDIATE"}, "COMMIT", "ROLLBACK"
	switch d {
	case Postgres:
		// Whatever the default is: it has to see what others have done while it waited for them.
		begin = []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_advisory_xact_lock(" + migrationLock + ")", "SET LOCAL lock_timeout = '5s'"}
	case MySQL:
		begin, commit = nil, "DO RELEASE_LOCK(CONCAT('rehop ', SHA2(DATABASE(), 224)))"
		rollback = commit
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('rehop ', SHA2(DATABASE(), 224)), 60)").Scan(&got); err != nil {
			return fmt.Errorf("lock: %w", err)
		} else if got.Int64 != 1 {
			return fmt.Errorf("lock: somebody else has been migrating for a minute")
		}
	}
	for _, s := range begin {
		if err := patiently(ctx, func() error { _, err := conn.ExecContext(ctx, s); return err }, d == SQLite); err != nil {
			discard(conn)
			return fmt.Errorf("lock: %w", err)
		}
	}
	end := rollback
	if err = f(); err == nil {
		end = commit
	}
	// Also when ctx has ended: the connection goes back to a pool.
	if _, endErr := conn.ExecContext(context.WithoutCancel(ctx), end); endErr != nil {
		discard(conn)
		if err == nil {
			err = endErr
		}
	}
	return err
}

// patiently tries again for a while where a database refuses to wait for a lock.
func patiently(ctx context.Context, try func() error, again bool) error {
	const tries, pause = 400, 25 * time.Millisecond
	for n := 1; ; n++ {
		err := try()
		if err == nil || !again || n == tries {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// discard keeps a connection in an unknown state from going back to its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
