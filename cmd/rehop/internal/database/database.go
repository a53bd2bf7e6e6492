package database

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/rehop/rehop/dialect"
)

// Source is the address of a database. It can contain a password.
type Source struct {
	Dialect dialect.Dialect
	driver  string
	dsn     string
	place   string
}

// String returns the URL without user, password and options.
func (s Source) String() string { return s.place }

// GoString returns String, because the fields can contain a password.
func (s Source) GoString() string { return s.place }

// Parse reads a URL: postgres://user:password@host:port/name?options, mysql://user:password@host:port/name?options, or sqlite:path?options.
// Errors do not contain it.
func Parse(text string) (Source, error) {
	switch scheme, rest, _ := strings.Cut(text, ":"); scheme {
	case "postgres", "postgresql":
		u, err := parseURL(text)
		if err != nil {
			return Source{}, err
		}
		return Source{Dialect: dialect.Postgres, driver: "pgx", dsn: text, place: shown(u)}, nil
	case "mysql", "mariadb":
		return parseMySQL(text)
	case "sqlite", "file":
		path := strings.TrimPrefix(rest, "//")
		if path == "" || strings.HasPrefix(path, "?") {
			return Source{}, errors.New("the URL of an SQLite database has no path: write sqlite:file.db")
		}
		file, options, _ := strings.Cut(path, "?")
		return Source{Dialect: dialect.SQLite, driver: "sqlite", dsn: "file:" + file + "?" + cmp.Or(options, sqliteDefaults), place: "sqlite:" + file}, nil
	}
	return Source{}, errors.New("the URL of a database must be postgres://…, mysql://… or sqlite:…")
}

// The default options of an SQLite database: writers wait for each other, and readers do not wait.
const (
	sqliteWait     = "_pragma=busy_timeout(10000)"
	sqliteDefaults = sqliteWait + "&_pragma=journal_mode(WAL)"
)

// Existing returns the database for commands that must not change it: an SQLite file is not created if it does not exist, and keeps its
// journal mode unless the URL has options.
func (s Source) Existing() Source {
	if s.Dialect != dialect.SQLite {
		return s
	}
	file, options, _ := strings.Cut(s.dsn, "?")
	if options == sqliteDefaults {
		options = sqliteWait
	}
	if !strings.Contains("&"+options, "&mode=") {
		options += "&mode=rw"
	}
	s.dsn = file + "?" + options
	return s
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL of the database is not valid; it is not shown because it may have a password")
	}
	if u.Hostname() == "" && u.Query().Get("host") == "" {
		return nil, errors.New("the URL of the database has no host")
	}
	if strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("the URL of the database has no name after the host: write /name")
	}
	return u, nil
}

func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// parseMySQL converts a URL to the DSN of the driver.
func parseMySQL(text string) (Source, error) {
	u, err := parseURL(text)
	if err != nil {
		return Source{}, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306")), strings.Trim(u.Path, "/")
	dsn := config.FormatDSN()
	if u.RawQuery != "" {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn += separator + u.RawQuery
	}
	if config, err = mysql.ParseDSN(dsn); err != nil {
		return Source{}, errors.New("the URL of the database has options that the MySQL driver does not know")
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	return Source{Dialect: dialect.MySQL, driver: "mysql", dsn: config.FormatDSN(), place: shown(u)}, nil
}

// Open returns a pool. It does not connect: the first query does.
func (s Source) Open() (*sql.DB, error) {
	db, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return nil, fmt.Errorf("open %s: its driver does not accept the URL", s) // the driver's error contains the URL
	}
	return db, nil
}
