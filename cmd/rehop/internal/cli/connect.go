package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// arrival waits until a client is connected. A client keeps trying forever, but a command must report that it cannot connect.
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

// connect opens a client and waits until it is connected.
func (c *command) connect(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	began := time.Now()
	a := &arrival{arrived: make(chan struct{})}
	config.Hooks = append(config.Hooks, rehop.Hooks{OnState: a.OnState})
	client, err := c.openClient(ctx, config)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithDeadline(ctx, began.Add(c.reach.connectTimeout))
	defer cancel()
	if err := a.await(limited); err != nil {
		closed := c.close(client)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errors.Join(c.notConnected(err), closed)
	}
	return client, nil
}

const closeLimit = 10 * time.Second

// close closes a client, also if the command was interrupted.
func (c *command) close(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return client.Close(ctx)
}
