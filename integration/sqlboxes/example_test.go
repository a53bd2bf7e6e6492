//go:build !race

package sqlboxes

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

// An order is stored and announced in one transaction. Whoever gets the announcement stores a summary, once, and makes a message of its
// own in the same transaction.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+sqliteOptions)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := dialect.SQLite.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (name TEXT)"); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE summaries (name TEXT)"); err != nil {
		log.Fatal(err)
	}
	embedded := &broker.Server{}
	if err := embedded.Start(); err != nil {
		log.Fatal(err)
	}
	defer embedded.Close()
	client, err := rehop.Open(ctx, rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: embedded.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	// The relay publishes what was committed, until its context ends.
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- outbox.Relay{Client: client, DB: db, Dialect: dialect.SQLite}.Run(running) }()

	box := outbox.New(dialect.SQLite)
	in := inbox.Inbox{DB: db, Dialect: dialect.SQLite}
	if _, err := client.Subscribe(ctx, rehop.Subscription{
		Queue: "summaries", Exchange: "order", Middleware: []rehop.Middleware{in.Middleware("summaries")},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			tx := inbox.Tx(ctx)
			if _, err := tx.ExecContext(ctx, "INSERT INTO summaries (name) VALUES (?)", d.Body); err != nil {
				return err
			}
			return box.Publish(ctx, tx, outbox.Message{Message: rehop.Message{Key: "letters", Body: append([]byte("Thank you for "), d.Body...)}})
		}),
	}); err != nil {
		log.Fatal(err)
	}
	letters := make(chan string)
	if _, err := client.Subscribe(ctx, rehop.Subscription{
		Queue: "letters",
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			letters <- string(d.Body)
			return nil
		}),
	}); err != nil {
		log.Fatal(err)
	}

	order := func(name string, commit bool) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer tx.Rollback() // of no effect after Commit
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (name) VALUES (?)", name); err != nil {
			log.Fatal(err)
		}
		if err := box.Publish(ctx, tx, outbox.Message{Message: rehop.Message{Exchange: "order", Key: "order.created", Body: []byte(name)}}); err != nil {
			log.Fatal(err)
		}
		if !commit {
			return
		}
		if err := tx.Commit(); err != nil {
			log.Fatal(err)
		}
	}
	order("a boat", false)
	order("a book", true)
	fmt.Println(<-letters)

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output: Thank you for a book
}
