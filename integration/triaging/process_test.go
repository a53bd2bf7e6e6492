package triaging

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// The variables with the broker, its management API and the database of a process that runs a service until it is killed.
const (
	serviceBroker     = "REHOP_TRIAGING_BROKER"
	serviceManagement = "REHOP_TRIAGING_MANAGEMENT"
	serviceDriver     = "REHOP_TRIAGING_DRIVER"
	serviceSource     = "REHOP_TRIAGING_SOURCE"
)

// processChecks is how often the process compares queues with the index.
const processChecks = 200 * time.Millisecond

// batch is how many messages a run may send twice for each kill.
const batch = 256

// dialects are those of the drivers.
var dialects = map[string]dialect.Dialect{"sqlite": dialect.SQLite, "pgx": dialect.Postgres, "mysql": dialect.MySQL}

func openStore(ctx context.Context, d *lab.Database) (*triage.Store, func(), error) {
	db, err := sql.Open(d.Driver, d.Source)
	if err != nil {
		return nil, nil, err
	}
	if err := (dialect.Migration{Dialect: dialects[d.Driver], Part: dialect.Triage}).Run(ctx, db); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: dialects[d.Driver]})
	return store, func() { _ = db.Close() }, err
}

// serviceProcess runs a service.
func serviceProcess(url string) error {
	ctx, management := context.Background(), os.Getenv(serviceManagement)
	store, closeStore, err := openStore(ctx, &lab.Database{Driver: os.Getenv(serviceDriver), Source: os.Getenv(serviceSource)})
	if err != nil {
		return err
	}
	defer closeStore()
	a, err := admin.Open(ctx, admin.Config{URL: url, Management: management})
	if err != nil {
		return err
	}
	defer a.Close()
	service, err := triage.NewService(triage.ServiceConfig{Store: store, Admin: a, CheckEvery: processChecks, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	service.Run(ctx)
	return nil
}

// server is such a process.
type server struct {
	*exec.Cmd
	errs kit.Log
}

func startServer(t *testing.T, r *lab.Rabbit, d *lab.Database) *server {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Cmd: exec.Command(program)}
	s.Env, s.Stderr = append(os.Environ(), serviceBroker+"="+r.URL, serviceManagement+"="+r.Management(), serviceDriver+"="+d.Driver, serviceSource+"="+d.Source), &s.errs
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// kill kills it, as kill -9 does.
func (s *server) kill() {
	if s.ProcessState == nil {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
}

// fillFailed puts messages into the failed queue: those of the set have the kind timeout.
func fillFailed(t *testing.T, a *admin.Admin, set, others int) {
	t.Helper()
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	share := max((set+others)/set, 1)
	for n, left := 0, set; n < set+others; n++ {
		kind := "error"
		if left > 0 && (n%share == 0 || set+others-n <= left) {
			kind = "timeout"
			left--
		}
		at := time.Date(2026, 1, 2, 0, 0, 0, n*1_000_000, time.UTC)
		err := enc.Encode(map[string]any{"id": kind + fmt.Sprint(n), "queue": queue, "exchange": "", "key": queue, "body": []byte(fmt.Sprintf(`{"order":%d}`, n)), "attempts": 3,
			"kind": kind, "error": "no answer from host " + fmt.Sprint(n%7), "failed_at": at, "first_failed": at})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := a.Import(kit.Context(t), &lines); err != nil || n != set+others {
		t.Fatalf("imported %d messages, %v, want %d", n, err, set+others)
	}
}
