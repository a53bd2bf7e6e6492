package cli

import (
	"context"
	"errors"
	"time"

	"github.com/rehop/rehop"
)

// connect opens a client and waits for its first attempt to connect. A client keeps trying forever, but a command must report at once that it
// cannot connect.
func (c *command) connect(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	first := make(chan rehop.StateChange, 1)
	config.Hooks = append(config.Hooks, rehop.Hooks{OnState: func(s rehop.StateChange) {
		if s.Connection != "publish" {
			return
		}
		select {
		case first <- s:
		default:
		}
	}})
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	client, err := rehop.Open(limited, config)
	if err == nil {
		if err = connected(limited, first); err == nil {
			return client, nil
		}
		err = errors.Join(err, c.close(client))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, c.reach.at.broker.unreachable(err)
}

// connected waits for the first state of a connection, and returns why there is none.
func connected(ctx context.Context, first <-chan rehop.StateChange) error {
	select {
	case s := <-first:
		if s.State == rehop.StateOpen || s.State == rehop.StateBlocked {
			return nil
		}
		return s.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

const closeLimit = 10 * time.Second

// close closes a client, also if the command was interrupted.
func (c *command) close(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return client.Close(ctx)
}
