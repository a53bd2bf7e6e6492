package flow

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/outbox"
)

type relaying struct {
	outbox config.Outbox
	cancel context.CancelFunc
	ended  chan struct{}
}

// relay starts the relay of an outbox. It runs until it is canceled: errors are logged, and it tries again.
func (r *Runner) relay(g *generation, o config.Outbox) *relaying {
	ctx, cancel := context.WithCancel(context.Background())
	running := &relaying{outbox: o, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(running.ended)
		hooks := r.observersOf(o.Name)
		for ctx.Err() == nil {
			err := r.relayOnce(ctx, g, o, hooks)
			if ctx.Err() != nil {
				return
			}
			r.Logger.Error("outbox is not relayed; rehop keeps trying", "outbox", o.Name, "database", o.Database.String(), "err", err)
			_ = rabbit.Pause(ctx, relayPause)
		}
	}()
	return running
}

// observersOf returns the hooks of a relay. Without them the outbox is relayed anyway.
func (r *Runner) observersOf(name string) []outbox.Hooks {
	if r.ObserveOutbox == nil {
		return nil
	}
	observer, err := r.ObserveOutbox(name)
	if err != nil {
		r.Logger.Warn("metrics of an outbox are missing", "outbox", name, "err", err)
		return nil
	}
	return []outbox.Hooks{observer}
}

// reportGone resets the backlog of an outbox that is not relayed here any more.
func (r *Runner) reportGone(name string) {
	for _, hooks := range r.observersOf(name) {
		if hooks.OnBacklog != nil {
			hooks.OnBacklog(outbox.Backlog{})
		}
	}
}

// relayPause is the pause before a relay that could not work at all, for example without tables, is started again.
const relayPause = 5 * time.Second

func (r *Runner) relayOnce(ctx context.Context, g *generation, o config.Outbox, hooks []outbox.Hooks) error {
	db, err := o.Database.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	if o.Migrate {
		// The relay logs the same warning about durability.
		migration := dialect.Migration{Dialect: o.Database.Dialect, Tables: o.Tables, RequireDurable: o.RequireDurable, Logger: slog.New(slog.DiscardHandler)}
		if err := migration.Run(ctx, db); err != nil {
			return fmt.Errorf("bring the tables to the newest version: %w", err)
		}
	}
	return outbox.Relay{
		Client: g.publisher(), DB: db, Dialect: o.Database.Dialect, Tables: o.Tables, RequireDurable: o.RequireDurable,
		BatchSize: o.BatchSize, MaxBytes: o.MaxBytes, Tries: o.Tries,
		Poll: o.Poll, Lease: o.Lease, Timeout: o.Timeout, RetryMin: o.RetryMin, RetryMax: o.RetryMax, Keep: o.Keep,
		Hooks: hooks, Logger: r.Logger.With("outbox", o.Name),
	}.Run(ctx)
}
