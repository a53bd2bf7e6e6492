// Package outboxpgx connects outbox and inbox with pgx: it writes messages in a pgx.Tx, gives handlers one, and wakes relays with
// PostgreSQL's notifications.
//
//	err = box.Publish(ctx, outboxpgx.Tx(tx), rehop.Message{…})
//
//	db := outboxpgx.DB(pool)
//	relay := outbox.Relay{Client: client, DB: db, Dialect: dialect.Postgres, Waker: outboxpgx.Listener{Config: pool.Config().ConnConfig}}
//
//	in := inbox.Inbox{DB: db, Dialect: dialect.Postgres, Begin: outboxpgx.Begin(pool)}
//	tx := outboxpgx.From(ctx) // in the handler
package outboxpgx
