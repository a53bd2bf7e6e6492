package serve

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/triage"
)

// LocalConsole is a console, with an index of failed messages, for a broker in this process that has no users of its own. It needs no login, can be reached
// from this machine alone, and leaves nothing behind.
type LocalConsole struct {
	url   string
	store *triage.Store
	ends  closers
}

// localCheck is how often the index is compared with the failed queues: a user looks at it, and the queues are short.
const localCheck = time.Second

// OpenLocalConsole serves the console until it is closed.
func OpenLocalConsole(ctx context.Context, server *broker.Server, logger *slog.Logger) (_ *LocalConsole, err error) {
	c := &LocalConsole{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("serve the console: %w", errors.Join(err, c.Close()))
		}
	}()
	desk, err := c.administrate(ctx, server)
	if err != nil {
		return nil, err
	}
	if c.store, err = c.openStore(ctx); err != nil {
		return nil, err
	}
	service, err := triage.NewService(triage.ServiceConfig{Store: c.store, Admin: desk, Alone: true, CheckEvery: localCheck, Logger: logger})
	if err != nil {
		return nil, err
	}
	c.run(service.Run)
	shown, err := console.New(console.Options{
		Admin: desk, Triage: func(context.Context) (*triage.Store, error) { return c.store, nil }, Logger: logger,
		Authenticate: func(*http.Request) (console.User, error) { return console.User{Name: "you", Role: console.Admin}, nil },
		Management:   nowhereURL,
		About:        []console.Fact{{Name: "address", Value: "the embedded broker of this process"}, {Name: "data", Value: "in memory, lost at the end"}},
	})
	if err != nil {
		return nil, err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.url = "http://" + at.Addr().String() + "/"
	c.serve(at, shown, logger)
	c.ends = append(c.ends, func() error { // before the server ends: open pages would keep it
		shown.Close()
		return nil
	})
	return c, nil
}

// administrate connects to the broker and its management API, both within the process.
func (c *LocalConsole) administrate(ctx context.Context, server *broker.Server) (*admin.Admin, error) {
	handler, err := mgmt.Handler(server)
	if err != nil {
		return nil, err
	}
	pipe := newPipeListener()
	c.serve(pipe, handler, slog.New(slog.DiscardHandler))
	desk, err := admin.Open(ctx, admin.Config{Dial: server.Dial, Management: withinURL, HTTP: pipe.client()})
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() error {
		desk.Close()
		return nil
	})
	return desk, nil
}

// openStore opens an index in a directory of its own.
func (c *LocalConsole) openStore(ctx context.Context) (*triage.Store, error) {
	dir, err := os.MkdirTemp("", "rehop-")
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() error { return os.RemoveAll(dir) })
	source, err := database.Parse("sqlite:" + filepath.Join(dir, IndexFile) + "?" + sqltext.IndexOptions)
	if err != nil {
		return nil, err
	}
	db, err := source.Open()
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, db.Close)
	return openIndex(ctx, db)
}

func openIndex(ctx context.Context, db *sql.DB) (*triage.Store, error) {
	if err := (dialect.Migration{Dialect: dialect.SQLite, Part: dialect.Triage}).Run(ctx, db); err != nil {
		return nil, err
	}
	return triage.Open(ctx, triage.Config{DB: db, Dialect: dialect.SQLite})
}

// run calls work in the background, until the console is closed.
func (c *LocalConsole) run(work func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { work(ctx) })
	c.ends = append(c.ends, func() error {
		stop()
		working.Wait()
		return nil
	})
}

// serve answers requests in the background, until the console is closed.
func (c *LocalConsole) serve(at net.Listener, handler http.Handler, logger *slog.Logger) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}
	c.run(func(ctx context.Context) {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		_ = server.Serve(at)
	})
}

// URL is its address.
func (c *LocalConsole) URL() string { return c.url }

// Removed is how many messages users have discarded or sent to another queue, so that they are not where they failed any more.
func (c *LocalConsole) Removed(ctx context.Context) (removed int, err error) {
	groups, err := c.store.Groups(ctx, triage.GroupFilter{})
	if err != nil {
		return 0, err
	}
	for _, g := range groups.Groups {
		removed += g.Counts.Discarded + g.Counts.Kept
	}
	runs, err := c.store.Runs(ctx, triage.RunFilter{Limit: localRecords})
	if err != nil {
		return 0, err
	}
	for _, r := range runs {
		if r.To != "" {
			removed += r.Counts.Taken()
		}
	}
	records, err := c.store.AuditRecords(ctx, 0, localRecords)
	if err != nil {
		return 0, err
	}
	for _, r := range records {
		if r.Action == "failed.discard" {
			var details struct{ Messages int }
			if err := json.Unmarshal(r.Details, &details); err != nil {
				return 0, fmt.Errorf("record %d of the audit: %w", r.Number, err)
			}
			removed += details.Messages
		}
	}
	return removed, nil
}

// localRecords is more than a user does while a console like this is open.
const localRecords = 10_000

// Close ends it and deletes its index.
func (c *LocalConsole) Close() error { return c.ends.close() }
