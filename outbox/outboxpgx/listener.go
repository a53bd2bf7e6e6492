package outboxpgx

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// Listener wakes relays when a transaction with messages commits. It keeps a connection of its own, since one that listens can do
// nothing else; behind a proxy that shares connections between clients it does not work, so give it the server's own address.
type Listener struct {
	// Config is how it connects.
	Config *pgx.ConnConfig
	// Tables are those of the relay. Default: rehop_outbox and so on.
	Tables dialect.Tables
}

// silence is how long it listens before it asks whether the server is still there.
const silence = 30 * time.Second

// Listen is for the relay.
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
