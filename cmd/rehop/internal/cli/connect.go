package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// arrival waits for a client to be connected. A client goes on trying for ever; a person who has typed a command wants to know.
type arrival struct {
	mu      sync.Mutex
	err     error // why it is not connected
	arrived chan struct{}
	once    sync.Once
}

// OnState is called when a connection changes.
func (a *arrival) OnState(s rehop.StateChange) {
	if s.Connection != "publish" {
		return
	}
	if s.State == rehop.StateOpen || s.State == rehop.StateBlocked {
		a.once.Do(func() { close(a.arrived) })
		return
	}
	a.mu.Lock()
	a.err = s.Err
	a.mu.Unlock()
}

func (a *arrival) await(ctx context.Context) error {
	select {
	case <-a.arrived:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		return ctx.Err()
	}
	return a.err
}

// connect opens a client that is connected.
func (c *command) connect(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	began := time.Now()
	a := &arrival{arrived: make(chan struct{})}
	config.Hooks = append(config.Hooks, rehop.Hooks{OnState: a.OnState})
	client, err := c.openClient(ctx, config)
	if err != nil {
		return nil, err
	}
	patience, cancel := context.WithDeadline(ctx, began.Add(c.reach.patience))
	defer cancel()
	if err := a.await(patience); err != nil {
		closed := c.close(client)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errors.Join(c.notConnected(err), closed)
	}
	return client, nil
}

const closeLimit = 10 * time.Second

// close closes a client also when the command has been interrupted.
func (c *command) close(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return client.Close(ctx)
}
