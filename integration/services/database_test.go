package services

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// connect opens a database by the URL that env has for it.
func connect(t *testing.T, address string) *sql.DB {
	t.Helper()
	driver, source := "pgx", address
	if strings.HasPrefix(address, "mysql:") {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		config := mysql.NewConfig()
		config.User, config.Net, config.Addr = u.User.Username(), "tcp", u.Host
		config.Passwd, _ = u.User.Password()
		driver, source = "mysql", config.FormatDSN()
	} else {
		source += "&default_query_exec_mode=exec" // PgBouncer may run each transaction on another connection
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestDatabases(t *testing.T) {
	for _, c := range []struct{ service, node, variable, table string }{
		{"postgres", "pg", "REHOP_POSTGRES", "kept"},
		{"pgbouncer", "pgbouncer", "REHOP_PGBOUNCER", "kept"},
		{"mariadb", "maria", "REHOP_MARIADB", "kept.kept"},
		{"mysql", "mysql", "REHOP_MYSQL", "kept.kept"},
	} {
		t.Run(c.service, func(t *testing.T) {
			p := newPlace(t, "")
			p.up(c.service)
			env := p.variables()
			address := env[c.variable+"_URL"]
			db := connect(t, address)
			var version string
			if err := db.QueryRowContext(limited(t), "SELECT VERSION()").Scan(&version); err != nil {
				t.Fatal(err)
			}
			if got := env[c.variable+"_VERSION"]; got == "" || c.service != "pgbouncer" && !strings.Contains(version, got) {
				t.Errorf("env says that version %q runs, and the server that it is %q", got, version)
			}
			statements := []string{"CREATE TABLE " + c.table + " (n int)", "INSERT INTO " + c.table + " VALUES (1)"}
			if database, _, ok := strings.Cut(c.table, "."); ok {
				statements = append([]string{"CREATE DATABASE " + database}, statements...)
			}
			for _, s := range statements {
				if _, err := db.ExecContext(limited(t), s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
			p.cycle(c.node, func() {
				t.Helper()
				var rows int
				if err := connect(t, address).QueryRowContext(limited(t), "SELECT COUNT(*) FROM "+c.table).Scan(&rows); err != nil || rows != 1 {
					t.Errorf("got %d rows, %v, want 1", rows, err)
				}
			})
			statement := "SELECT 40 + 2"
			if c.service == "pgbouncer" {
				statement = "SHOW POOLS"
			}
			flag := "-e"
			if strings.HasPrefix(address, "postgres") {
				flag = "-c"
			}
			if got := p.run("ctl", c.node, flag, statement); !strings.Contains(got, "42") && !strings.Contains(got, "transaction") {
				t.Errorf("%s by the command line client: got %q", statement, got)
			}
		})
	}
}

// Two processes that start the same service at the same time start one server.
func TestUpAtOnce(t *testing.T) {
	p := newPlace(t, "")
	p.up("postgres")
	p.run("down")
	first, second := p.command("up", "postgres"), p.command("up", "postgres")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := second.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	p.wantState("pg", "up")
	if err := connect(t, p.variables()["REHOP_POSTGRES_URL"]).PingContext(limited(t)); err != nil {
		t.Error(err)
	}
}

// What happens in one state directory does not disturb another.
func TestTwoPlaces(t *testing.T) {
	a, b := newPlace(t, ""), newPlace(t, "")
	first := a.command("up", "postgres")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	b.up("postgres")
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	addressA, addressB := a.variables()["REHOP_POSTGRES_URL"], b.variables()["REHOP_POSTGRES_URL"]
	if addressA == addressB {
		t.Fatalf("both have the address %s", addressA)
	}
	a.run("kill", "pg")
	if err := connect(t, addressB).PingContext(limited(t)); err != nil {
		t.Errorf("after a kill in another place: %v", err)
	}
	a.run("down")
	if _, err := os.Stat(a.dir); !os.IsNotExist(err) {
		t.Errorf("after down the state directory is there: %v", err)
	}
	b.wantState("pg", "up")
	if err := connect(t, addressB).PingContext(limited(t)); err != nil {
		t.Errorf("after down in another place: %v", err)
	}
	a.run("up", "postgres") // as before
}

// A state directory of an older program is replaced, with what runs in it.
func TestOlderState(t *testing.T) {
	p := newPlace(t, "")
	p.up("postgres")
	before := p.wantState("pg", "up")
	if err := os.WriteFile(p.dir+"/.rehop-services", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if reason := p.variables()["REHOP_SERVICES_MISSING"]; !strings.Contains(reason, "postgres: not up: pg") {
		t.Errorf("got %q, want that nothing is up", reason)
	}
	p.run("up", "postgres")
	if after := p.wantState("pg", "up"); after == before {
		t.Errorf("the server with pid %s of the older program is still used", before)
	}
}
