package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/outbox"
)

// relaying is a relay at work.
type relaying struct {
	outbox config.Outbox
	cancel context.CancelFunc
	ended  chan struct{}
}

// relay starts the relay of an outbox. It lasts until it is canceled: what hinders it is logged, and tried again.
func (r *Runner) relay(g *generation, o config.Outbox) *relaying {
	ctx, cancel := context.WithCancel(context.Background())
	running := &relaying{outbox: o, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(running.ended)
		for ctx.Err() == nil {
			err := r.relayOnce(ctx, g, o)
			if ctx.Err() != nil {
				return
			}
			r.Logger.Error("outbox is not relayed; it is tried again", "outbox", o.Name, "database", o.Database.String(), "err", err)
			select {
			case <-time.After(relayPause):
			case <-ctx.Done():
			}
		}
	}()
	return running
}

// relayPause is how long to wait before a relay that could not work at all, such as for want of tables, is tried again.
const relayPause = 5 * time.Second

func (r *Runner) relayOnce(ctx context.Context, g *generation, o config.Outbox) error {
	db, err := o.Database.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	if o.Migrate {
		if err := o.Database.Dialect.Migrate(ctx, db); err != nil {
			return fmt.Errorf("bring the tables to the newest version: %w", err)
		}
	}
	var hooks []outbox.Hook
	if g.observer != nil {
		hooks = append(hooks, g.observer)
	}
	return outbox.Relay{
		Client: g.client, DB: db, Dialect: o.Database.Dialect, BatchSize: o.BatchSize, MaxBytes: o.MaxBytes, Tries: o.Tries,
		Poll: o.Poll, Lease: o.Lease, Timeout: o.Timeout, RetryMin: o.RetryMin, RetryMax: o.RetryMax, Keep: o.Keep,
		Hooks: hooks, Logger: r.Logger.With("outbox", o.Name),
	}.Run(ctx)
}
