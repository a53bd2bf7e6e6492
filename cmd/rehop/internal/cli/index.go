package cli

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

const envTriage = "REHOP_TRIAGE"

// index is the database of an index of failed messages, and the names of its tables. It is named by the first of these that names it:
//
//  1. --database
//  2. $REHOP_TRIAGE
//  3. triage.database of the file of --config, else of the rehop.yaml in this directory
//  4. the file that rehop up has in its data directory: that of the file, else rehop-data. It is of the embedded broker, so not if the file
//     names another broker.
//
// The URL can have a password, so it is never the default of the flag, which help would show.
type index struct {
	*command
	url    string
	file   string
	tables dialect.Tables
}

func (c *command) newIndex(flags *pflag.FlagSet) *index {
	x := &index{command: c}
	flags.StringVar(&x.url, "database", "", "URL of the database with the index: postgres://…, mysql://… or sqlite:file (default $"+envTriage+", else that of rehop.yaml, else "+defaultIndex()+")")
	flags.StringVar(&x.tables.Schema, "schema", "", "schema that has rehop's tables; on MySQL, the database (default that of rehop.yaml or of the connection)")
	flags.StringVar(&x.tables.Prefix, "prefix", "", "prefix of the names of rehop's tables (default that of rehop.yaml, else rehop_)")
	flags.StringVar(&x.file, "config", "", "file (rehop.yaml) that has the index (default "+localFile+" in this directory, if it exists)")
	return x
}

// defaultIndex is where rehop up has an index if nothing names another place.
func defaultIndex() string { return filepath.ToSlash(filepath.Join(localData, serve.IndexFile)) }

// find returns the database of the index and the names of its tables.
func (x *index) find() (source database.Source, tables dialect.Tables, err error) {
	tables = x.tables
	for _, named := range []struct{ by, url string }{{"--database", x.url}, {"$" + envTriage, x.env(envTriage)}} {
		if named.url == "" {
			continue
		}
		if source, err = database.Parse(named.url); err != nil {
			return source, tables, usage("%s: %w", named.by, err)
		}
		return source, tables, x.checkNames(source, tables)
	}
	file := &config.File{}
	path := cmp.Or(x.file, localFile)
	if _, absent := os.Stat(path); x.file != "" || !errors.Is(absent, fs.ErrNotExist) {
		if file, err = config.Index(path); err != nil {
			return source, tables, usage("cannot find the index of failed messages by the file: %w; correct it, or name the index with --database or $%s", err, envTriage)
		}
	}
	if file.Triage.Off {
		return source, tables, usage("there is no index of failed messages: triage in %s is none; name another one with --database or $%s", path, envTriage)
	}
	if source = file.Triage.Database; source.Dialect != "" {
		tables = dialect.Tables{Schema: cmp.Or(tables.Schema, file.Triage.Tables.Schema), Prefix: cmp.Or(tables.Prefix, file.Triage.Tables.Prefix)}
		return source, tables, x.checkNames(source, tables)
	}
	if file.NamesBroker {
		return source, tables, usage("there is no index of failed messages of the broker in %s: name one with triage.database in the file, --database or $%s", path, envTriage)
	}
	local := filepath.Join(cmp.Or(file.Data, localData), serve.IndexFile)
	if _, err := os.Stat(local); err != nil {
		return source, tables, usage("no index of failed messages: there is no %s, which rehop up creates when the first message has failed; set --database or $%s, or triage.database in rehop.yaml (--config)", local, envTriage)
	}
	if source, err = database.Parse("sqlite:" + local); err != nil {
		return source, tables, err
	}
	return source, tables, x.checkNames(source, tables)
}

func (x *index) checkNames(source database.Source, tables dialect.Tables) error {
	if err := tables.Check(source.Dialect); err != nil {
		return usage("%w", err)
	}
	return nil
}

// use opens the index, calls work, and closes the connections. It never creates a database or tables.
func (x *index) use(ctx context.Context, work func(*triage.Store) error) error {
	source, tables, err := x.find()
	if err != nil {
		return err
	}
	db, err := x.openDatabase(ctx, source)
	if err != nil {
		return err
	}
	store, err := x.open(ctx, db, source, tables)
	if err == nil {
		err = work(store)
	}
	return errors.Join(err, db.Close())
}

func (x *index) openDatabase(ctx context.Context, source database.Source) (*sql.DB, error) {
	db, err := source.Existing().Open()
	if err != nil {
		return nil, usage("the database of the index: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, x.reach.connectTimeout)
	defer cancel()
	if err := db.PingContext(limited); err != nil {
		err = fmt.Errorf("connect to %s: %w; rehop up and rehop run create an index: check its address, and that one of them has been started", source, errors.Join(err, db.Close()))
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, unreachable(err)
	}
	return db, nil
}

func (x *index) open(ctx context.Context, db *sql.DB, source database.Source, tables dialect.Tables) (*triage.Store, error) {
	migration := dialect.Migration{Dialect: source.Dialect, Part: dialect.Triage, Tables: tables}
	version, err := migration.Version(ctx, db)
	newest := migration.Newest()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", source, err)
	case version == 0:
		return nil, fmt.Errorf("%s has no table %s: rehop up and rehop run create the tables of an index when they start; name the tables with --schema and --prefix if they have other names",
			source, tables.Name(source.Dialect, "triage_message"))
	case version < newest:
		return nil, fmt.Errorf("the tables of the index in %s have version %d, this program needs %d: start rehop up or rehop run of this version, which updates them", source, version, newest)
	}
	store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: source.Dialect, Tables: tables})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return store, nil
}
