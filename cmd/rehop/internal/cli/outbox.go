package cli

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

const envDatabase = "REHOP_DATABASE"

// store is the database of an outbox, and the names of its tables. The URL can have a password, so it is never the default of the flag,
// which help would show.
type store struct {
	*command
	url    string
	tables dialect.Tables
}

func (c *command) newStore(flags *pflag.FlagSet) *store {
	s := &store{command: c}
	flags.StringVar(&s.url, "database", "", "URL of the database: postgres://…, mysql://… or sqlite:file (default $"+envDatabase+")")
	flags.StringVar(&s.tables.Schema, "schema", "", "schema that has rehop's tables; on MySQL, the database (default that of the connection)")
	flags.StringVar(&s.tables.Prefix, "prefix", "", "prefix of the names of rehop's tables (default rehop_)")
	return s
}

func addRequireDurable(flags *pflag.FlagSet, required *bool) {
	flags.BoolVar(required, "require-durable", false, "refuse a database whose settings let a crash lose committed messages (default log a warning)")
}

// given is the URL of the database. Empty: none is given.
func (s *store) given() string { return cmp.Or(s.url, s.env(envDatabase)) }

func (s *store) source() (database.Source, error) {
	given := s.given()
	if given == "" {
		return database.Source{}, usage("no database: set --database or $%s", envDatabase)
	}
	source, err := database.Parse(given)
	if err != nil {
		return source, usage("--database: %w", err)
	}
	return source, s.checkNames(source.Dialect)
}

// checkNames returns an error for names of tables that the database cannot have.
func (s *store) checkNames(d dialect.Dialect) error {
	if err := s.tables.Check(d); err != nil {
		return usage("%w", err)
	}
	return nil
}

// use connects to the database, calls work, and closes the connections.
func (s *store) use(ctx context.Context, work func(*sql.DB, database.Source) error) error {
	source, err := s.source()
	if err != nil {
		return err
	}
	db, err := s.openDatabase(ctx, source)
	if err != nil {
		return err
	}
	return errors.Join(work(db, source), db.Close())
}

func (s *store) openDatabase(ctx context.Context, source database.Source) (*sql.DB, error) {
	db, err := source.Open()
	if err != nil {
		return nil, usage("--database: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, s.reach.connectTimeout)
	defer cancel()
	if err := db.PingContext(limited); err != nil {
		err = fmt.Errorf("connect to %s: %w", source, errors.Join(err, db.Close()))
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, unreachable(err)
	}
	return db, nil
}

func (s *store) migration(d dialect.Dialect) dialect.Migration {
	return dialect.Migration{Dialect: d, Tables: s.tables}
}

func (s *store) inspector(db *sql.DB, d dialect.Dialect) outbox.Inspector {
	return outbox.Inspector{DB: db, Dialect: d, Tables: s.tables}
}

// version returns the version of the tables, which must exist.
func (s *store) version(ctx context.Context, db *sql.DB, source database.Source) (int, error) {
	version, err := s.migration(source.Dialect).Version(ctx, db)
	if err == nil && version == 0 {
		err = fmt.Errorf("%s has no table %s: run rehop outbox migrate, or name the tables with --schema and --prefix", source, s.tables.Name(source.Dialect, "outbox"))
	}
	return version, err
}

// requireTables checks that the tables exist, and are new enough for this program.
func (s *store) requireTables(ctx context.Context, db *sql.DB, source database.Source) error {
	version, err := s.version(ctx, db, source)
	if newest := source.Dialect.Newest(); err == nil && version < newest {
		return fmt.Errorf("the tables in %s have version %d, this program needs %d: run rehop outbox migrate", source, version, newest)
	}
	return err
}

func (c *command) outbox() *cobra.Command {
	return group("outbox", "Inspect and relay the outbox of a database",
		`An outbox is a table to which an application writes messages in the same transaction as its data. A relay publishes them once that transaction has committed.`,
		c.outboxStatus(), c.outboxList(), c.outboxRetry(), c.outboxDrop(), c.outboxRelay(), c.outboxMigrate())
}

// backlog is the number of messages in an outbox in JSON output.
type backlog struct {
	Version  int     `json:"version"` // of the tables
	Newest   int     `json:"newest_version"`
	Ready    int     `json:"ready"`
	Retrying int     `json:"retrying"`
	Delayed  int     `json:"delayed"`
	SetAside int     `json:"set_aside"`
	Kept     int     `json:"kept"`
	Capped   bool    `json:"capped"` // a count has reached outbox.MaxCounted: there may be more
	Oldest   float64 `json:"oldest_seconds"`
}

func (c *command) outboxStatus() *cobra.Command {
	var s *store
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count the messages in the outbox",
		Long: fmt.Sprintf(`Status counts the messages in the outbox: to be published now (ready), to be published again after a failure (retrying), to be published later (delayed),
set aside until you retry or discard them, and kept after they were published. It counts up to %d of each and shows more as %s.`, outbox.MaxCounted, cappedCount(outbox.MaxCounted)),
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.use(cmd.Context(), func(db *sql.DB, source database.Source) error { return s.status(cmd.Context(), db, source) })
		},
	}
	s = c.newStore(cmd.Flags())
	return cmd
}

func (s *store) status(ctx context.Context, db *sql.DB, source database.Source) error {
	version, err := s.version(ctx, db, source)
	if err != nil {
		return err
	}
	b, err := s.inspector(db, source.Dialect).Backlog(ctx)
	if err != nil {
		return err
	}
	return s.printBacklog(version, source.Dialect.Newest(), b)
}

func (s *store) printBacklog(version, newest int, b outbox.Backlog) error {
	if s.json {
		capped := slices.Max([]int{b.Ready, b.Retrying, b.Delayed, b.SetAside, b.Kept}) >= outbox.MaxCounted
		return s.printJSON(backlog{version, newest, b.Ready, b.Retrying, b.Delayed, b.SetAside, b.Kept, capped, b.Oldest.Seconds()})
	}
	if err := s.printTable([]string{"READY", "RETRYING", "OLDEST", "DELAYED", "SET ASIDE", "KEPT"}, [][]string{{
		cappedCount(b.Ready), cappedCount(b.Retrying), b.Oldest.Round(time.Millisecond).String(), cappedCount(b.Delayed), cappedCount(b.SetAside), cappedCount(b.Kept)}}); err != nil {
		return err
	}
	if version < newest {
		s.notice("the tables have version %d, this program needs %d: run rehop outbox migrate", version, newest)
	}
	return nil
}

// cappedCount is a count of messages, with a + if there may be more.
func cappedCount(count int) string {
	if count < outbox.MaxCounted {
		return strconv.Itoa(count)
	}
	return strconv.Itoa(outbox.MaxCounted) + "+"
}

func (c *command) outboxMigrate() *cobra.Command {
	var (
		s       *store
		onPaper bool
		of      string
		after   int
		durable bool
	)
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables of the outbox and the inbox, or bring them to the newest version",
		Long: `Migrate brings rehop's tables in a database to the newest version. Several programs can run it at the same time.

It logs a warning if the server's settings let a crash lose committed transactions. With --require-durable it reports an error instead, and changes nothing.

With --print it prints the SQL instead, for use with your own migration tool. It then needs no database if --dialect is given.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case onPaper && durable:
				return usage("--require-durable cannot be used with --print, which reads no settings of a database")
			case onPaper:
				return s.printSQL(of, after)
			case of != "" || cmd.Flags().Changed("after"):
				return usage("--dialect and --after need --print")
			}
			return s.use(cmd.Context(), func(db *sql.DB, source database.Source) error { return s.migrate(cmd.Context(), db, source, durable) })
		},
	}
	s = c.newStore(cmd.Flags())
	addRequireDurable(cmd.Flags(), &durable)
	cmd.Flags().BoolVar(&onPaper, "print", false, "print the SQL, and change nothing")
	cmd.Flags().StringVar(&of, "dialect", "", "with --print: postgres, mysql or sqlite (default that of the database)")
	cmd.Flags().IntVar(&after, "after", 0, "with --print: the current version of the tables; 0 means that there are none")
	return cmd
}

func (s *store) printSQL(of string, after int) error {
	d := dialect.Dialect(of)
	if of == "" {
		source, err := s.source()
		if err != nil {
			return err
		}
		d = source.Dialect
	}
	if err := d.Check(); err != nil {
		return usage("--dialect %s: the dialects are postgres, mysql and sqlite", of)
	}
	if err := s.checkNames(d); err != nil {
		return err
	}
	if after < 0 || after > d.Newest() {
		return usage("--after %d must be from 0 to %d, the newest version", after, d.Newest())
	}
	text, err := s.migration(d).SQL(after)
	if err != nil {
		return usage("--after: %w", err)
	}
	return s.printf("%s", text)
}

// migrated is the result of a migration in JSON output.
type migrated struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (s *store) migrate(ctx context.Context, db *sql.DB, source database.Source, durable bool) error {
	m := s.migration(source.Dialect)
	m.RequireDurable, m.Logger = durable, s.logger()
	from, err := m.Version(ctx, db)
	if err != nil {
		return err
	}
	if err := m.Run(ctx, db); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	to, err := m.Version(ctx, db)
	if err != nil {
		return err
	}
	switch {
	case s.json:
		return s.printJSON(migrated{from, to})
	case from == to:
		return s.printf("the tables already have version %d\n", to)
	}
	return s.printf("the tables now have version %d\n", to)
}
