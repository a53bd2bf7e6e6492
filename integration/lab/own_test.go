package lab_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/rehop/rehop/integration/lab"
)

// Each call of Own gives servers that work: the first, one after tests have killed servers, and one after down.
func TestOwn(t *testing.T) {
	if os.Getenv("REHOP_FAULTS_SERVICES") == "given" {
		t.Skip("REHOP_FAULTS_SERVICES=given: Own starts no servers")
	}
	own(t, "pgbouncer")
	dir := os.Getenv("REHOP_SERVICES_DIR")
	t.Run("PgBouncer", func(t *testing.T) {
		d := lab.PgBouncer(t)
		direct, pooled := d.Direct.Open(t), *d
		pooled.Source += "&default_query_exec_mode=exec"
		through := pooled.Open(t)
		execute(t, direct, "CREATE TABLE t (n int)")
		execute(t, through, "INSERT INTO t VALUES ($1)", 1)
		wantRows(t, through, 1)
		if err := d.Kill(); err != nil {
			t.Fatal(err)
		}
		wantRows(t, direct, 1)
		if err := through.Ping(); err == nil {
			t.Error("PgBouncer answers although it was killed")
		}
	})

	down := own(t, "pgbouncer", "mysql")
	if again := os.Getenv("REHOP_SERVICES_DIR"); again != dir {
		t.Errorf("a further call of Own uses directory %s, want %s", again, dir)
	}
	t.Run("MySQL", func(t *testing.T) {
		d := lab.MySQL(t)
		db := d.Open(t)
		execute(t, db, "CREATE TABLE t (n int)")
		execute(t, db, "INSERT INTO t VALUES (?)", 1)
		if err := d.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		wantRows(t, d.Open(t), 1)
	})
	t.Run("PgBouncer started again", func(t *testing.T) {
		if err := lab.PgBouncer(t).Open(t).Ping(); err != nil {
			t.Error(err)
		}
	})

	if err := down(); err != nil {
		t.Fatal(err)
	}
	if err := down(); err != nil {
		t.Errorf("down once more: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("after down, directory %s: got error %v, want that it does not exist", dir, err)
	}
	own(t, "postgres")
	t.Run("Postgres", func(t *testing.T) {
		if err := lab.Postgres(t).Open(t).Ping(); err != nil {
			t.Error(err)
		}
	})
}

func own(t *testing.T, services ...string) (down func() error) {
	t.Helper()
	down, err := lab.Own(services...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := down(); err != nil {
			t.Error(err)
		}
	})
	return down
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// wantRows wants a number of rows in table t.
func wantRows(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	var got int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&got); err != nil {
		t.Fatalf("count rows: %v", err)
	}
	if got != want {
		t.Errorf("got %d rows, want %d", got, want)
	}
}
