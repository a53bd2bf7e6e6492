package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

// printed is a transaction that prints its statements. In a program it is a *sql.Tx.
type printed struct{}

func (printed) InTransaction() {}

func (printed) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	into, _, _ := strings.Cut(query, " (")
	fmt.Println(into)
	return driver.RowsAffected(1), nil
}

// A message is written in the same transaction as the order that it is about. A relay publishes it after the commit.
func ExampleBox_Publish() {
	ctx := context.Background()
	box := outbox.New(dialect.SQLite)
	var tx printed // tx, err := db.BeginTx(ctx, nil)
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (number) VALUES (?)", 7); err != nil {
		fmt.Println(err)
		return
	}
	err := box.Publish(ctx, tx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte(`{"number":7}`)})
	fmt.Println(err)
	// and then tx.Commit()

	// Without a transaction, nothing is written.
	err = box.Publish(ctx, &sql.DB{}, rehop.Message{Exchange: "order", Key: "order.created"})
	fmt.Println(errors.Is(err, outbox.ErrNoTransaction))
	// Output:
	// INSERT INTO orders
	// INSERT INTO rehop_outbox
	// <nil>
	// true
}

// A message that belongs to no transaction is published directly. Only if the broker does not accept it, it is written to the outbox.
func ExampleSpill() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{} // or RabbitMQ: then set Config.URL instead of Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	handled := make(chan string)
	if _, err := client.Subscribe(ctx, rehop.Subscriber{Queue: "audit", Exchange: "audits",
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			handled <- string(d.Body)
			return nil
		})}); err != nil {
		fmt.Println(err)
		return
	}

	var db *sql.DB // sql.Open("pgx", "postgres://…")
	spill := outbox.Spill{Client: client, Box: outbox.New(dialect.Postgres), DB: db, Hooks: []outbox.Hooks{{
		OnSpill: func(_ context.Context, m *rehop.Message, err error) { fmt.Println(m.ID, "is in the outbox:", err) },
	}}}
	fmt.Println(spill.Publish(ctx, rehop.Message{Exchange: "audits", Key: "login", Body: []byte("alice logged in")}))
	fmt.Println(<-handled)
	// Output:
	// <nil>
	// alice logged in
}

// Rows are printed by rehop outbox ls and in logs, and read back to retry or discard their messages.
func ExampleParseRowID() {
	row, err := outbox.ParseRowID("12-3fa91c")
	fmt.Println(row.Number, row, err)
	// Output: 12 12-3fa91c <nil>
}
