// Package outbox publishes messages that commit with your data: a message is written in the transaction that it belongs to, and
// a relay publishes it once that has committed. What was rolled back is never published.
//
//	box := outbox.New(dialect.Postgres)
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders …")
//	err = box.Publish(ctx, tx, outbox.Message{Message: rehop.Message{Exchange: "order", Key: "order.created", Body: body}})
//	err = tx.Commit()
//
// In the same program or in another one run a relay; up to 16 share the work:
//
//	relay := outbox.Relay{Client: client, DB: db, Dialect: dialect.Postgres}
//	err := relay.Run(ctx)
//
// A committed message is published at least once. It is published again under the same id when a relay dies, or when another
// one takes its lease, between the broker's confirm and the deletion of the row; package inbox has such copies handled once.
//
// The tables come from [dialect.Dialect.Migrate], or from the SQL that [dialect.Dialect.SQL] prints.
package outbox
