package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

const envDatabase = "REHOP_DATABASE"

// store is the database that an outbox is in. Its URL holds a password, so what was given never becomes the default of the flag.
type store struct {
	*command
	url string
}

func (c *command) newStore(flags *pflag.FlagSet) *store {
	s := &store{command: c}
	flags.StringVar(&s.url, "database", "", "URL of the database: postgres://…, mysql://… or sqlite:file (default $"+envDatabase+")")
	return s
}

func (s *store) source() (database.Source, error) {
	given := s.url
	if given == "" {
		given = s.env(envDatabase, "")
	}
	if given == "" {
		return database.Source{}, usage("which database? Say so with --database or $%s", envDatabase)
	}
	source, err := database.Parse(given)
	if err != nil {
		return source, usage("--database: %w", err)
	}
	return source, nil
}

// open connects to the database.
func (s *store) open(ctx context.Context) (*sql.DB, database.Source, error) {
	source, err := s.source()
	if err != nil {
		return nil, source, err
	}
	db, err := source.Open()
	if err != nil {
		return nil, source, usage("--database: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, s.reach.patience)
	defer cancel()
	if err := db.PingContext(limited); err != nil {
		err = fmt.Errorf("connect to %s: %w", source, errors.Join(err, db.Close()))
		if ctx.Err() != nil {
			return nil, source, err
		}
		return nil, source, unreachable(err)
	}
	return db, source, nil
}

// tables checks that the tables are there.
func tables(ctx context.Context, db *sql.DB, of dialect.Dialect) error {
	version, err := of.Version(ctx, db)
	if err != nil {
		return fmt.Errorf("look for the tables: %w", err)
	}
	if version == 0 {
		return errors.New("the database has no outbox yet; rehop outbox migrate makes its tables")
	}
	return nil
}

func (c *command) outbox() *cobra.Command {
	return group("outbox", "Look after the outbox of a database",
		`An outbox is a table in which messages are written in the transaction that they belong to; a relay publishes them once that has committed.`,
		c.outboxStatus(), c.outboxList(), c.outboxRetry(), c.outboxDrop(), c.outboxRelay(), c.outboxMigrate())
}

// backlog is how much is in an outbox, as JSON.
type backlog struct {
	Version  int     `json:"version"` // of the tables
	Newest   int     `json:"newest_version"`
	Ready    int     `json:"ready"`
	Retrying int     `json:"retrying"`
	Delayed  int     `json:"delayed"`
	SetAside int     `json:"set_aside"`
	Kept     int     `json:"kept"`
	Oldest   float64 `json:"oldest_seconds"`
}

func (c *command) outboxStatus() *cobra.Command {
	var s *store
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how much is in the outbox",
		Long:  `Status counts what is in the outbox: to be published now (ready), tried in vain and to be tried again (retrying), to be published later (delayed), set aside for a person, and kept after it was published.`,
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, source, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			return errors.Join(s.status(cmd.Context(), db, source), db.Close())
		},
	}
	s = c.newStore(cmd.Flags())
	return cmd
}

func (s *store) status(ctx context.Context, db *sql.DB, source database.Source) error {
	if err := tables(ctx, db, source.Dialect); err != nil {
		return err
	}
	version, err := source.Dialect.Version(ctx, db)
	if err != nil {
		return err
	}
	b, err := outbox.Inspector{DB: db, Dialect: source.Dialect}.Backlog(ctx)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(backlog{version, source.Dialect.Newest(), b.Ready, b.Retrying, b.Delayed, b.SetAside, b.Kept, b.Oldest.Seconds()})
	}
	if err := s.printTable([]string{"READY", "RETRYING", "OLDEST", "DELAYED", "SET ASIDE", "KEPT"}, [][]string{{
		strconv.Itoa(b.Ready), strconv.Itoa(b.Retrying), b.Oldest.Round(time.Millisecond).String(), strconv.Itoa(b.Delayed), strconv.Itoa(b.SetAside), strconv.Itoa(b.Kept)}}); err != nil {
		return err
	}
	if version < source.Dialect.Newest() {
		s.notice("the tables have version %d, and this program knows %d; rehop outbox migrate brings them there", version, source.Dialect.Newest())
	}
	return nil
}

func (c *command) outboxMigrate() *cobra.Command {
	var (
		s       *store
		onPaper bool
		of      string
		after   int
	)
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables of the outbox and the inbox, or bring them to the newest version",
		Long: `Migrate brings rehop's tables in a database to the newest version. Many may run it at once. With --print it prints the SQL that does so, for those who
apply migrations with a tool of their own; it then needs no database if --dialect is given.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if onPaper {
				return s.printSQL(of, after)
			}
			if of != "" || cmd.Flags().Changed("after") {
				return usage("--dialect and --after go with --print")
			}
			db, source, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			return errors.Join(s.migrate(cmd.Context(), db, source), db.Close())
		},
	}
	s = c.newStore(cmd.Flags())
	cmd.Flags().BoolVar(&onPaper, "print", false, "print the SQL, and do nothing")
	cmd.Flags().StringVar(&of, "dialect", "", "with --print: postgres, mysql or sqlite (default that of the database)")
	cmd.Flags().IntVar(&after, "after", 0, "with --print: the version that the tables have; 0 is none")
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
		return usage("--dialect %s: there are postgres, mysql and sqlite", of)
	}
	if after < 0 || after > d.Newest() {
		return usage("--after %d must be from 0 to %d, the newest version", after, d.Newest())
	}
	text, err := d.SQL(after)
	if err != nil {
		return usage("--after: %w", err)
	}
	return s.printf("%s", text)
}

// migrated is what a migration of the tables has done, as JSON.
type migrated struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (s *store) migrate(ctx context.Context, db *sql.DB, source database.Source) error {
	from, err := source.Dialect.Version(ctx, db)
	if err != nil {
		return err
	}
	if err := source.Dialect.Migrate(ctx, db); err != nil {
		return err
	}
	to, err := source.Dialect.Version(ctx, db)
	if err != nil {
		return err
	}
	switch {
	case s.json:
		return s.printJSON(migrated{from, to})
	case from == to:
		return s.printf("the tables have version %d already\n", to)
	}
	return s.printf("the tables have version %d now\n", to)
}
