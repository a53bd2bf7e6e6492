package database

import (
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

// Source is where a database is, as its driver wants it. It may hold a password.
type Source struct {
	Dialect dialect.Dialect
	driver  string
	dsn     string
	place   string
}

// String is the database without user, password and options.
func (s Source) String() string { return s.place }

// GoString is String: there is a password in the fields.
func (s Source) GoString() string { return s.place }

// Parse reads a URL: postgres://user:password@host:port/name?options, mysql://user:password@host:port/name?options, or sqlite:path?options.
// Its errors do not show it.
func Parse(text string) (Source, error) {
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		return Source{}, errors.New("the URL of a database must be postgres://…, mysql://… or sqlite:…")
	}
	switch scheme {
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
		return Source{Dialect: dialect.SQLite, driver: "sqlite", dsn: "file:" + file + "?" + sqliteOptions(options), place: "sqlite:" + file}, nil
	}
	return Source{}, errors.New("the URL of a database must be postgres://…, mysql://… or sqlite:…")
}

// The options of an SQLite database without any: writers wait for each other, and readers for nobody.
const (
	sqliteWait     = "_pragma=busy_timeout(10000)"
	sqliteDefaults = sqliteWait + "&_pragma=journal_mode(WAL)"
)

func sqliteOptions(given string) string {
	if given != "" {
		return given
	}
	return sqliteDefaults
}

// Existing is the database for those who must not change it: an SQLite file that does not exist is not created, and keeps its journal
// mode unless the URL has options.
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
		return nil, errors.New("the URL of the database cannot be read as one; it is not shown, as it may have a password in it")
	}
	if u.Hostname() == "" && u.Query().Get("host") == "" {
		return nil, errors.New("the URL of the database has no host")
	}
	if strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("the URL of the database has no name behind the host: write /name")
	}
	return u, nil
}

func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// parseMySQL turns a URL into what the driver reads.
func parseMySQL(text string) (Source, error) {
	u, err := parseURL(text)
	if err != nil {
		return Source{}, err
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = "3306"
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", net.JoinHostPort(host, port), strings.Trim(u.Path, "/")
	dsn := config.FormatDSN()
	if u.RawQuery != "" {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn += separator + u.RawQuery
	}
	if config, err = mysql.ParseDSN(dsn); err != nil {
		return Source{}, errors.New("the options in the URL of the database are none that the driver for MySQL knows")
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	return Source{Dialect: dialect.MySQL, driver: "mysql", dsn: config.FormatDSN(), place: shown(u)}, nil
}

// Open prepares connections. Whether the database is there, the first query finds out.
func (s Source) Open() (*sql.DB, error) {
	db, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return nil, fmt.Errorf("open %s: its driver does not understand the URL", s) // and says so with all of it
	}
	return db, nil
}
