package outboxpgx

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// Listener wakes relays when a transaction with messages commits. Use it to publish with little delay without polling often. It keeps one
// connection of its own. It does not work through a proxy that shares connections between clients, such as pgbouncer with transaction
// pooling: give it the address of the server.
type Listener struct {
	// Config is how to connect to the server. Required.
	Config *pgx.ConnConfig
	// Tables are the names of the relay's tables. Default: rehop_outbox and so on.
	Tables dialect.Tables
}

// silence is how long it listens before it pings the server.
const silence = 30 * time.Second

// Listen implements outbox.Waker. The relay calls it.
func (l Listener) Listen(ctx context.Context, wake func()) error {
	if err := l.Tables.Check(dialect.Postgres); err != nil {
		return fmt.Errorf("outboxpgx: listen: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, l.Config)
	if err != nil {
		return fmt.Errorf("outboxpgx: listen: %w", err)
	}
	defer func() {
		// ctx has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	channel := sqltext.SQL{Dialect: dialect.Postgres, Tables: l.Tables}.Channel()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("outboxpgx: listen: %w", err)
	}
	wake()
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, silence)
		_, err := conn.WaitForNotification(waiting)
		quiet := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			wake()
		case quiet:
			asking, cancel := context.WithTimeout(ctx, silence)
			err = conn.Ping(asking)
			cancel()
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("outboxpgx: listen: %w", err)
		}
	}
	return nil
}
