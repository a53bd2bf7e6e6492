// Package outboxpgx lets outbox and inbox work with pgx: messages are written in a pgx.Tx, handlers get one, and relays are woken by
// PostgreSQL's notifications.
//
//	err = box.Publish(ctx, outboxpgx.Tx(tx), outbox.Message{…})
//
//	db := outboxpgx.DB(pool)
//	relay := outbox.Relay{Client: client, DB: db, Dialect: dialect.Postgres, Waker: outboxpgx.Listener{Config: pool.Config().ConnConfig}}
//
//	in := inbox.Inbox{DB: db, Dialect: dialect.Postgres, Begin: outboxpgx.Begin(pool)}
//	tx := outboxpgx.From(ctx) // in the handler
package outboxpgx
