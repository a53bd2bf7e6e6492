// Package outbox publishes messages that commit with your data: you write a message in the same transaction as your data, and a relay
// publishes it after the commit. If the transaction is rolled back, the message is never published.
//
//	box := outbox.New(dialect.Postgres)
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders …")
//	err = box.Publish(ctx, tx, rehop.Message{Exchange: "order", Key: "order.created", Body: body})
//	err = tx.Commit()
//
// Run a relay in the same program or in another one. Up to 16 relays share the work:
//
//	relay := outbox.Relay{Client: client, DB: db, Dialect: dialect.Postgres}
//	err := relay.Run(ctx)
//
// A committed message is published at least once. It is published again, with the same id, if a relay dies or loses its lease between
// the broker's confirm and the deletion of the row. Package inbox recognizes such copies.
//
// The tables come from [dialect.Dialect.Migrate], or from the SQL that [dialect.Dialect.SQL] prints.
package outbox
