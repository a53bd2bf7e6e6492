package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/triage"
)

// IndexFile is the name of the index of failed messages in the data directory of the embedded broker.
const IndexFile = "triage.db"

// failedIndex is the index of failed messages.
type failedIndex struct {
	run     *running
	config  config.Triage
	store   atomic.Pointer[triage.Store] // nil: the database could not be reached yet
	missing atomic.Pointer[string]       // why
	own     string                       // its file, if that is in the data directory, which only this process uses
	wanted  chan struct{}                // has a value if somebody asks for the index
}

// indexRetry is how long to wait before a database is tried again.
const indexRetry = 5 * time.Second

// newFailedIndex returns the index of the file, or by default one in the data directory.
func newFailedIndex(r *running) *failedIndex {
	x := &failedIndex{run: r, config: r.file.Triage, wanted: make(chan struct{}, 1)}
	if e := r.Embedded; e != nil && e.Data != "" && x.config.Database.Dialect == "" && !x.config.Off {
		source, err := database.Parse("sqlite:" + filepath.Join(e.Data, IndexFile) + "?" + sqltext.IndexOptions)
		if err != nil {
			r.Logger.Error("there is no index of failed messages", "err", err)
			return x
		}
		x.config.Database, x.config.RequireDurable, x.own = source, true, filepath.Join(e.Data, IndexFile)
	}
	return x
}

// exists reports whether there is an index.
func (x *failedIndex) exists() bool { return !x.config.Off && x.config.Database.Dialect != "" }

// errNoIndex: there is no index.
var errNoIndex = errors.New("there is no index of failed messages: set triage in rehop.yaml")

// current returns the index.
func (x *failedIndex) current(context.Context) (*triage.Store, error) {
	if store := x.store.Load(); store != nil {
		return store, nil
	}
	if !x.exists() {
		return nil, errNoIndex
	}
	select {
	case x.wanted <- struct{}{}:
	default:
	}
	if why := x.missing.Load(); why != nil {
		return nil, errors.New(*why)
	}
	return nil, fmt.Errorf("the index in %s is being opened", x.config.Database)
}

// start works on the index in the background, until the function that it returns is called.
func (x *failedIndex) start(ctx context.Context) (end func() error) {
	if !x.exists() {
		return func() error { return nil }
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.await(ctx)
		for ctx.Err() == nil {
			if err := x.work(ctx); err != nil && ctx.Err() == nil {
				why := fmt.Sprintf("the index of failed messages in %s cannot be used: %v", x.config.Database, err)
				x.missing.Store(&why)
				x.run.Logger.Error(why + "; trying again")
				_ = rabbit.Pause(ctx, indexRetry)
			}
		}
	}()
	return func() error {
		stop()
		<-ended
		return nil
	}
}

// await waits until the index is needed: SQLite takes memory, which a machine where nothing fails can use for other things.
func (x *failedIndex) await(ctx context.Context) {
	for x.own != "" {
		if _, err := os.Stat(x.own); err == nil {
			return
		}
		check := time.NewTimer(checkFailedEvery)
		select {
		case <-check.C:
		case <-x.wanted:
			check.Stop()
			return
		case <-ctx.Done():
			check.Stop()
			return
		}
		a, err := x.run.broker.connect(ctx)
		if err != nil {
			continue // the embedded broker reports why it has failed
		}
		queues, err := a.FailedQueues(ctx)
		if err == nil && slices.ContainsFunc(queues, func(q admin.FailedQueue) bool { return q.Messages > 0 }) {
			return
		}
	}
}

// checkFailedEvery is how often it is checked whether the first message has failed.
const checkFailedEvery = 2 * time.Second

// work opens the database, and works until ctx ends.
func (x *failedIndex) work(ctx context.Context) (err error) {
	db, err := x.config.Database.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if x.own != "" {
		db.SetMaxIdleConns(sqltext.IndexIdle)
	}
	store, err := x.open(ctx, db)
	if err != nil {
		return err
	}
	service, err := triage.NewService(triage.ServiceConfig{Store: store, Connect: x.run.broker.connect, Alone: x.own != "", ErrorQueues: x.config.ErrorQueues, Retention: x.config.Retention, Logger: x.run.Logger})
	if err != nil {
		return err
	}
	x.store.Store(store)
	service.Run(ctx)
	return nil
}

func (x *failedIndex) open(ctx context.Context, db *sql.DB) (*triage.Store, error) {
	speaks := x.config.Database.Dialect
	migration := dialect.Migration{Dialect: speaks, Part: dialect.Triage, Tables: x.config.Tables}
	if err := migration.Run(ctx, db); err != nil {
		return nil, err
	}
	return triage.Open(ctx, triage.Config{DB: db, Dialect: speaks, Tables: x.config.Tables, RequireDurable: x.config.RequireDurable})
}
