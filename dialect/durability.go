package dialect

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// ErrNotDurable means that a database's settings let a crash lose committed transactions.
var ErrNotDurable = errors.New("the database does not keep what was committed")

// Weakness is a setting with which a database can lose transactions that it reported as committed.
type Weakness struct {
	Setting string // the name of the setting
	Value   string
	Loses   string // what can be lost, and when
	Fix     string // what to set
}

func (w Weakness) String() string {
	return fmt.Sprintf("%s=%s: %s; %s", w.Setting, w.Value, w.Loses, w.Fix)
}

// Durability reads the settings of a server, as one connection of the pool sees them, and returns those that let a crash lose committed
// transactions: messages in the outbox with the data they belong to, and the changes of messages that were acked.
func (d Dialect) Durability(ctx context.Context, db *sql.DB) ([]Weakness, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("read durability settings: %w", err)
	}
	defer conn.Close()
	read := map[Dialect]func(context.Context, *sql.Conn) ([]Weakness, error){
		Postgres: postgresDurability, MySQL: mysqlDurability, SQLite: sqliteDurability,
	}[d]
	var weak []Weakness
	err = retryLocked(ctx, func() (err error) { // SQLite refuses while another program changes the journal
		weak, err = read(ctx, conn)
		return err
	}, d == SQLite)
	if err != nil {
		return nil, fmt.Errorf("read durability settings: %w", err)
	}
	return weak, nil
}

// CheckDurable calls Durability and logs a warning for each weakness. If durability is required, it returns ErrNotDurable instead. A nil
// logger is slog.Default().
func (d Dialect) CheckDurable(ctx context.Context, db *sql.DB, required bool, logger *slog.Logger) error {
	weak, err := d.Durability(ctx, db)
	if err != nil || len(weak) == 0 {
		return err
	}
	if required {
		all := make([]string, len(weak))
		for i, w := range weak {
			all[i] = w.String()
		}
		return fmt.Errorf("%w: %s", ErrNotDurable, strings.Join(all, "; "))
	}
	for _, w := range weak {
		cmp.Or(logger, slog.Default()).WarnContext(ctx, "rehop: the database can lose committed messages", "setting", w.Setting, "value", w.Value, "loses", w.Loses, "fix", w.Fix)
	}
	return nil
}

func postgresDurability(ctx context.Context, conn *sql.Conn) (weak []Weakness, err error) {
	var commit, fsync, pages string
	if err := conn.QueryRowContext(ctx, "SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')").Scan(&commit, &fsync, &pages); err != nil {
		return nil, err
	}
	if commit == "off" {
		weak = append(weak, Weakness{"synchronous_commit", commit, "a crash of the server loses the commits of the last moments (three times wal_writer_delay)", "set synchronous_commit=on"})
	}
	if fsync == "off" {
		weak = append(weak, Weakness{"fsync", fsync, "a crash of the machine can lose or corrupt everything", "set fsync=on"})
	}
	if pages == "off" {
		weak = append(weak, Weakness{"full_page_writes", pages, "a crash of the machine can corrupt pages that were being written", "set full_page_writes=on unless the file system writes whole pages"})
	}
	return weak, nil
}

func mysqlDurability(ctx context.Context, conn *sql.Conn) (weak []Weakness, err error) {
	var flush, binlog, sync int
	var double string
	if err := conn.QueryRowContext(ctx, "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin, @@GLOBAL.sync_binlog, @@GLOBAL.innodb_doublewrite").Scan(&flush, &binlog, &sync, &double); err != nil {
		return nil, err
	}
	if flush != 1 && flush != 3 { // 3 is MariaDB's, and syncs more
		loses := "a crash of the machine loses the commits of the last second"
		if flush == 0 {
			loses = "a crash of the server loses the commits of the last second"
		}
		weak = append(weak, Weakness{"innodb_flush_log_at_trx_commit", fmt.Sprint(flush), loses, "set innodb_flush_log_at_trx_commit=1"})
	}
	if binlog == 1 && sync != 1 {
		weak = append(weak, Weakness{"sync_binlog", fmt.Sprint(sync), "a crash of the machine loses commits of the binary log, so that replicas and the server disagree about them", "set sync_binlog=1"})
	}
	var name, redo string
	switch err := conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'").Scan(&name, &redo); {
	case errors.Is(err, sql.ErrNoRows): // MariaDB, and MySQL before 8.0.21
	case err != nil:
		return nil, err
	case redo != "ON":
		weak = append(weak, Weakness{"innodb_redo_log_enabled", redo, "a crash of the server corrupts everything", "run ALTER INSTANCE ENABLE INNODB REDO_LOG"})
	}
	if double == "0" || strings.EqualFold(double, "OFF") {
		weak = append(weak, Weakness{"innodb_doublewrite", double, "a crash of the machine can corrupt pages that were being written", "set innodb_doublewrite=ON unless the file system writes whole pages"})
	}
	return weak, nil
}

func sqliteDurability(ctx context.Context, conn *sql.Conn) (weak []Weakness, err error) {
	var level int
	var journal string
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return nil, err
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return nil, err
	}
	switch {
	case level == 0:
		weak = append(weak, Weakness{"synchronous", "OFF", "a crash of the machine can lose commits or corrupt the database", "set PRAGMA synchronous=FULL"})
	case level == 1 && journal == "wal":
		weak = append(weak, Weakness{"synchronous", "NORMAL", "a crash of the machine loses the commits since the last checkpoint", "set PRAGMA synchronous=FULL"})
	}
	if level == 2 && journal == "delete" {
		weak = append(weak, Weakness{"synchronous", "FULL with journal_mode=DELETE", "a crash of the machine right after a commit can undo it", "set PRAGMA journal_mode=WAL, or synchronous=EXTRA"})
	}
	if journal == "off" || journal == "memory" {
		weak = append(weak, Weakness{"journal_mode", strings.ToUpper(journal), "a crash in the middle of a transaction can corrupt the database", "set PRAGMA journal_mode=WAL"})
	}
	return weak, nil
}
