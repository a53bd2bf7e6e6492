package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
)

// connect opens a client and waits until it is connected. A client keeps trying forever, but a command must report that it cannot connect.
func (c *command) connect(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	connected, connect := context.WithCancel(context.Background())
	defer connect()
	var lost atomic.Pointer[rehop.StateChange]
	config.Hooks = append(config.Hooks, rehop.Hooks{OnState: func(s rehop.StateChange) {
		switch {
		case s.Connection != "publish":
		case s.State == rehop.StateOpen || s.State == rehop.StateBlocked:
			connect()
		default:
			lost.Store(&s)
		}
	}})
	client, err := c.openClient(ctx, config)
	if err != nil {
		return nil, err
	}
	select {
	case <-connected.Done():
		return client, nil
	case <-limited.Done():
	}
	closed := c.close(client)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	err = limited.Err()
	if s := lost.Load(); s != nil && s.Err != nil {
		err = s.Err
	}
	return nil, errors.Join(c.reach.at.notConnected(err), closed)
}

const closeLimit = 10 * time.Second

// close closes a client, also if the command was interrupted.
func (c *command) close(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return client.Close(ctx)
}
