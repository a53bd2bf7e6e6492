package serve

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

// startService runs a service with an embedded broker and the text of a file, until stop is called.
func startService(t *testing.T, text, data string) (embedded *Embedded, stop func()) {
	t.Helper()
	file, err := config.Parse("rehop.yaml", []byte(text), noVariables)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ready, ended := make(chan Report, 1), make(chan error, 1)
	embedded = &Embedded{RabbitMQ: broker.DefaultCompat, Data: data}
	service := Service{Load: func() (*config.File, error) { return file, nil }, Embedded: embedded, Env: noVariables,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Ready: func(r Report) error { ready <- r; return nil }}
	go func() { ended <- service.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return embedded, func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("the service ended with %v", err)
		}
	}
}

const failingFlow = "flows: {orders: {retry: [], target: {command: [\"false\"]}}}\n"

// With a data directory, a message that fails in a flow is in the index there, which other processes can read.
func TestFailedIndex(t *testing.T) {
	data := t.TempDir()
	embedded, stop := startService(t, failingFlow, data)
	client, err := rehop.Open(t.Context(), rehop.Config{Dial: embedded.server.Dial, Credentials: embedded.credentials})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Publish(t.Context(), rehop.Message{Key: "orders", ID: "m-1", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, IndexFile)+"?mode=rw&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for found := 0; found == 0; {
		if ctx.Err() != nil {
			t.Fatal("the message is not in the index")
		}
		store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: dialect.SQLite})
		if err != nil {
			continue // it is being created
		}
		r, err := store.Search(ctx, triage.Query{}, triage.Page{})
		if err != nil {
			t.Fatal(err)
		}
		if found = len(r.Messages); found > 0 && (r.Messages[0].ID != "m-1" || r.Messages[0].Queue != "orders" || r.Messages[0].State != triage.Failed) {
			t.Errorf("got %+v, want the message that has failed", r.Messages[0])
		}
	}
	if err := client.Close(ctx); err != nil {
		t.Error(err)
	}
	stop()
}

// Without a data directory, and with triage: none, there is no index.
func TestNoFailedIndex(t *testing.T) {
	data := t.TempDir()
	_, stop := startService(t, failingFlow+"triage: none\n", data)
	stop()
	if _, err := os.Stat(filepath.Join(data, IndexFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no index", err)
	}
	r := &running{Service: Service{Embedded: &Embedded{}}, file: config.None()}
	if x := newFailedIndex(r); x.exists() {
		t.Errorf("in memory: got an index in %v, want none", x.config.Database)
	} else if _, err := x.current(t.Context()); err == nil || !strings.Contains(err.Error(), "set triage") {
		t.Errorf("got %v, want what to do", err)
	}
}
