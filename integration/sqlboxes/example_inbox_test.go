//go:build !race

package sqlboxes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

// A message is consumed, has its effect, and makes another message, in one transaction: however often it comes, all of that
// happens once.
func Example_inbox() {
	shop := openShop()
	defer shop.Close()
	letters := shop.receive("letters", "")
	shop.relay()

	box, in := outbox.New(dialect.SQLite), inbox.Inbox{DB: shop.db, Dialect: dialect.SQLite}
	_, err := shop.client.Subscribe(shop.ctx, rehop.Subscriber{
		Queue: "summaries", Exchange: "order", Middleware: []rehop.Middleware{in.Middleware("summaries")},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			tx := inbox.Tx(ctx)
			if _, err := tx.ExecContext(ctx, "INSERT INTO summaries (name) VALUES (?)", d.Body); err != nil {
				return err
			}
			return box.Publish(ctx, tx, rehop.Message{Key: "letters", Body: append([]byte("Thank you for "), d.Body...)})
		}),
	})
	check(err)

	book := rehop.Message{ID: "order-1", Exchange: "order", Key: "order.created", Body: []byte("a book")}
	boat := rehop.Message{ID: "order-2", Exchange: "order", Key: "order.created", Body: []byte("a boat")}
	for _, m := range []rehop.Message{book, book, boat} { // the first comes twice
		check(shop.client.Publish(shop.ctx, m))
	}
	fmt.Println(<-letters)
	fmt.Println(<-letters)
	var summaries int
	check(shop.db.QueryRowContext(shop.ctx, "SELECT COUNT(*) FROM summaries").Scan(&summaries))
	fmt.Println(summaries, "summaries")
	// Unordered output:
	// Thank you for a book
	// Thank you for a boat
	// 2 summaries
}

// Messages are handled in batches, with one statement and one transaction for each batch. A message that comes twice is inserted once.
func Example_inboxBatch() {
	shop := openShop()
	defer shop.Close()

	duplicates := make(chan string)
	in := inbox.Inbox{DB: shop.db, Dialect: dialect.SQLite,
		OnDuplicate: func(_ context.Context, _ string, d *rehop.Delivery) { duplicates <- d.ID }}
	_, err := shop.client.Subscribe(shop.ctx, rehop.Subscriber{
		Queue: "summaries",
		Batch: rehop.Batch{
			Size: 100,
			Wait: 50 * time.Millisecond,
			Handle: in.BatchHandler("summaries", func(ctx context.Context, fresh []*rehop.Delivery) error {
				var names []any
				for _, d := range fresh {
					names = append(names, string(d.Body))
				}
				rows := strings.Repeat(", (?)", len(names))[2:]
				_, err := inbox.Tx(ctx).ExecContext(ctx, "INSERT INTO summaries (name) VALUES "+rows, names...)
				return err
			}),
		},
	})
	check(err)

	book := rehop.Message{ID: "order-1", Key: "summaries", Body: []byte("a book")}
	boat := rehop.Message{ID: "order-2", Key: "summaries", Body: []byte("a boat")}
	for _, m := range []rehop.Message{book, boat, book} { // the first comes twice
		check(shop.client.Publish(shop.ctx, m))
	}
	fmt.Println("again:", <-duplicates)
	var summaries int
	check(shop.db.QueryRowContext(shop.ctx, "SELECT COUNT(*) FROM summaries").Scan(&summaries))
	fmt.Println(summaries, "summaries")
	// Output:
	// again: order-1
	// 2 summaries
}
