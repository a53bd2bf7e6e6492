package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations
var migrationFiles embed.FS

// migration is one step from a version of the tables to the next.
//
// Programs of the version before keep working while a migration is applied and afterwards, and none holds a lock on a table with
// rows in it for longer than a moment: columns are added without rewriting a table, indexes without stopping writers.
type migration struct {
	version    int
	statements []string
	apart      bool // its statements cannot run in a transaction, and can be repeated
}

// first is the migration for a database that gets its tables at the same time: nobody writes to them yet.
func (m migration) first() migration {
	statements := make([]string, len(m.statements))
	for i, s := range m.statements {
		statements[i] = strings.ReplaceAll(s, "CONCURRENTLY ", "")
	}
	return migration{version: m.version, statements: statements}
}

// apartMark begins a file whose statements PostgreSQL does not accept in a transaction.
const apartMark = "-- rehop: outside of a transaction\n"

// Part is a set of rehop's tables that is created, and has versions, of its own.
type Part string

// The parts.
const (
	Boxes  Part = ""       // the tables of outbox and inbox
	Triage Part = "triage" // the index of failed messages
)

// check returns an error if p is not one of the parts.
func (p Part) check() error {
	if p == Boxes || p == Triage {
		return nil
	}
	return fmt.Errorf("part %q of the tables must be dialect.Boxes or dialect.Triage", string(p))
}

// versions is the table with the versions of a part.
func (p Part) versions() string {
	if p == Boxes {
		return "migration"
	}
	return string(p) + "_migration"
}

// migrations are the steps from nothing to the newest version, in order.
func (d Dialect) migrations(part Part, names Tables) ([]migration, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	if err := names.Check(d); err != nil {
		return nil, err
	}
	if err := part.check(); err != nil {
		return nil, err
	}
	dir := path.Join("migrations", string(part), string(d))
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
		script, apart := strings.CutPrefix(string(text), apartMark)
		all = append(all, migration{version, split(names.fill(d, script)), apart})
	}
	return all, nil
}

// split cuts a script into statements, each with the comment before it: not all drivers accept several at once.
func split(script string) []string {
	var all []string
	for s := range strings.SplitSeq(script, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// Newest returns the version of the tables of outbox and inbox that this program needs.
func (d Dialect) Newest() int { return Migration{Dialect: d}.Newest() }

// Newest returns the version of the tables that this program needs.
func (m Migration) Newest() int {
	all, err := m.Dialect.migrations(m.Part, Tables{})
	if err != nil || len(all) == 0 {
		return 0
	}
	return all[len(all)-1].version
}

// Migrate brings the tables with the default names to the newest version. See [Migration.Run].
func (d Dialect) Migrate(ctx context.Context, db *sql.DB) error {
	return Migration{Dialect: d}.Run(ctx, db)
}

// SQL is [Migration.SQL] for tables with the default names.
func (d Dialect) SQL(after int) (string, error) { return Migration{Dialect: d}.SQL(after) }

// Version is [Migration.Version] for tables with the default names.
func (d Dialect) Version(ctx context.Context, db *sql.DB) (int, error) {
	return Migration{Dialect: d}.Version(ctx, db)
}

// Migration creates rehop's tables in a database, or brings them to the newest version.
type Migration struct {
	// Dialect is the kind of database. Required.
	Dialect Dialect
	// Part is the set of tables. Default: those of outbox and inbox.
	Part Part
	// Tables are the names of rehop's tables. Default: rehop_outbox and so on.
	Tables Tables
	// RequireDurable makes Run return ErrNotDurable, and change nothing, if the server's settings let a crash lose committed
	// transactions; see [Dialect.Durability]. Default: Run logs a warning.
	RequireDurable bool
	// Logger receives that warning. Default: slog.Default().
	Logger *slog.Logger
}

// versionTable has a row for each migration that was applied.
func (m Migration) versionTable() string {
	return "CREATE TABLE IF NOT EXISTS " + m.Tables.Name(m.Dialect, m.Part.versions()) + " (version INTEGER NOT NULL PRIMARY KEY, applied BIGINT NOT NULL)"
}

func (m Migration) recordVersion(version int) string {
	return fmt.Sprintf("INSERT INTO %s (version, applied) VALUES (%d, %s)", m.Tables.Name(m.Dialect, m.Part.versions()), version, m.Dialect.Now())
}

// SQL returns a script that brings the tables from a version to the newest one, for use with your own migration tool. Version 0 is a
// database without the tables. Statements with CONCURRENTLY must run outside of a transaction.
func (m Migration) SQL(after int) (string, error) {
	all, err := m.Dialect.migrations(m.Part, m.Tables)
	if err != nil {
		return "", err
	}
	var script strings.Builder
	write := func(statement string) { script.WriteString(statement + ";\n\n") }
	if after == 0 {
		write(m.versionTable())
	}
	for _, step := range all {
		if step.version <= after {
			continue
		}
		if after == 0 {
			step = step.first()
		}
		for _, s := range step.statements {
			write(s)
		}
		write(m.recordVersion(step.version))
	}
	return script.String(), nil
}

// Version returns the version of the tables in a database, or 0 if there are none.
func (m Migration) Version(ctx context.Context, db *sql.DB) (int, error) {
	if err := errors.Join(m.Part.check(), m.Tables.Check(m.Dialect)); err != nil {
		return 0, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return m.version(ctx, conn)
}

// mysqlSchema is an SQL expression for the database that has the tables.
func (m Migration) mysqlSchema() string {
	if m.Tables.Schema != "" {
		return "'" + m.Tables.Schema + "'"
	}
	return "DATABASE()"
}

func (m Migration) version(ctx context.Context, conn *sql.Conn) (int, error) {
	bare := m.Tables.Bare(m.Part.versions())
	tables := map[Dialect]string{
		Postgres: "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('" + m.Tables.Name(m.Dialect, m.Part.versions()) + "')",
		MySQL:    "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = " + m.mysqlSchema() + " AND table_name = '" + bare + "'",
		SQLite:   "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '" + bare + "'",
	}
	var there, version int
	err := conn.QueryRowContext(ctx, tables[m.Dialect]).Scan(&there)
	if err == nil && there > 0 {
		err = conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM "+m.Tables.Name(m.Dialect, m.Part.versions())).Scan(&version)
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of rehop's tables: %w", err)
	}
	return version, nil
}

// Run brings the tables to the newest version. Several programs can call it at the same time. It does nothing if the tables have that
// version, or a newer one.
func (m Migration) Run(ctx context.Context, db *sql.DB) error {
	all, err := m.Dialect.migrations(m.Part, m.Tables)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := m.Dialect.CheckSession(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := m.Dialect.CheckDurable(ctx, db, m.RequireDurable, m.Logger); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer conn.Close()
	// Without a lock first: in most cases there is nothing to do.
	newest := all[len(all)-1].version
	for tries := 1; ; tries++ {
		at, err := m.version(ctx, conn)
		if err == nil && at >= newest {
			return nil
		}
		var apart *migration
		err = m.exclusively(ctx, conn, func() (err error) {
			apart, err = m.apply(ctx, conn, all)
			return err
		})
		if err == nil && apart != nil {
			err = m.applyApart(ctx, db, conn, apart)
		}
		if m.isLocked(err) && tries < lockTries {
			err = pause(ctx, lockPause)
		}
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
}

// A statement that waits for a lock on a table makes all others wait behind it. So it waits for a moment only, and is retried after a
// pause in which the others can run.
const (
	lockTries = 60
	lockPause = time.Second
)

// isLocked reports whether a migration failed because a transaction is using a table.
func (m Migration) isLocked(err error) bool {
	if err == nil {
		return false
	}
	switch m.Dialect {
	case Postgres:
		return strings.Contains(err.Error(), "SQLSTATE 55P03") || strings.Contains(err.Error(), "lock timeout")
	case MySQL:
		return strings.Contains(err.Error(), "Error 1205")
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apply applies migrations up to the first one that cannot run in a transaction, which it returns.
func (m Migration) apply(ctx context.Context, conn *sql.Conn, all []migration) (apart *migration, err error) {
	if _, err := conn.ExecContext(ctx, m.versionTable()); err != nil {
		return nil, fmt.Errorf("create table %s: %w", m.Tables.Bare(m.Part.versions()), err)
	}
	at, err := m.version(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, step := range all {
		if step.version <= at {
			continue
		}
		if at == 0 {
			step = step.first()
		}
		if step.apart {
			return &step, nil
		}
		if err := m.do(ctx, conn, step); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// do runs the statements of a migration and records it.
func (m Migration) do(ctx context.Context, conn *sql.Conn, step migration) error {
	for i, s := range append(step.statements, m.recordVersion(step.version)) {
		if _, err := conn.ExecContext(ctx, s); err != nil && !m.isRepeated(err) {
			return fmt.Errorf("version %d, statement %d: %w", step.version, i+1, err)
		}
	}
	return nil
}

// isRepeated reports whether a statement failed because an earlier, interrupted migration ran it: on MySQL each statement that changes a
// table is committed at once. The errors are "duplicate column" and "duplicate key name".
func (m Migration) isRepeated(err error) bool {
	return m.Dialect == MySQL && (strings.Contains(err.Error(), "Error 1060") || strings.Contains(err.Error(), "Error 1061"))
}

// applyApart applies a migration outside of a transaction while another connection holds the lock. A session lock would not work: a proxy
// such as pgbouncer gives each transaction another session.
func (m Migration) applyApart(ctx context.Context, db *sql.DB, locker *sql.Conn, step *migration) error {
	return m.exclusively(ctx, locker, func() error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("version %d needs a second connection: %w", step.version, err)
		}
		defer conn.Close()
		if at, err := m.version(ctx, conn); err != nil || at >= step.version {
			return err
		}
		return m.do(ctx, conn, *step)
	})
}

// migrationLock is the number of the advisory lock of migrations.
const migrationLock = "7308604759847661669"

// exclusively calls f while no other program migrates. If f returns an error, its changes are rolled back where the database can do that;
// elsewhere each statement can be repeated.
func (m Migration) exclusively(ctx context.Context, conn *sql.Conn, f func() error) (err error) {
	begin, commit, rollback := []string{"BEGIN IMMEDIATE"}, "COMMIT", "ROLLBACK"
	switch m.Dialect {
	case Postgres:
		// Not the default level: this transaction must see what others did while it waited for them.
		begin = []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_advisory_xact_lock(" + migrationLock + ")", "SET LOCAL lock_timeout = '300ms'"}
	case MySQL:
		lock := "CONCAT('rehop ', SHA2(" + m.mysqlSchema() + ", 224))"
		begin, commit = []string{"SET SESSION lock_wait_timeout = 1"}, "DO RELEASE_LOCK("+lock+")"
		rollback = commit
		// Also when ctx has ended: the connection goes back to a pool.
		defer func() {
			if _, restored := conn.ExecContext(context.WithoutCancel(ctx), "SET SESSION lock_wait_timeout = DEFAULT"); restored != nil {
				discard(conn)
			}
		}()
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lock+", 60)").Scan(&got); err != nil {
			return fmt.Errorf("lock: %w", err)
		} else if got.Int64 != 1 {
			return fmt.Errorf("lock: another program has been migrating for a minute")
		}
	}
	for _, s := range begin {
		if err := retryLocked(ctx, func() error { _, err := conn.ExecContext(ctx, s); return err }, m.Dialect == SQLite); err != nil {
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

// retryLocked tries again for up to 10 s if the database refuses to wait for a lock.
func retryLocked(ctx context.Context, try func() error, again bool) error {
	const tries, interval = 400, 25 * time.Millisecond
	for n := 1; ; n++ {
		err := try()
		if err == nil || !again || n == tries {
			return err
		}
		if pause(ctx, interval) != nil {
			return err
		}
	}
}

// discard removes a connection in an unknown state from its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
