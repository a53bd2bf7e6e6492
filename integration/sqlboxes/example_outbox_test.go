//go:build !race

package sqlboxes

import (
	"fmt"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

// An order is stored and announced in one transaction: if it does not commit, nobody hears of it.
func Example_outbox() {
	shop := openShop()
	defer shop.Close()
	announced := shop.receive("announcements", "order")
	shop.relay() // publishes what is committed, here or in any other program

	box := outbox.New(dialect.SQLite)
	order := func(name string, paid bool) error {
		tx, err := shop.db.BeginTx(shop.ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // of no effect after Commit
		if _, err := tx.ExecContext(shop.ctx, "INSERT INTO orders (name) VALUES (?)", name); err != nil {
			return err
		}
		if err := box.Publish(shop.ctx, tx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte(name)}); err != nil {
			return err
		}
		if !paid {
			return fmt.Errorf("%s is not paid", name)
		}
		return tx.Commit()
	}
	fmt.Println(order("a boat", false))
	fmt.Println(order("a book", true))
	fmt.Println("announced:", <-announced)
	// Output:
	// a boat is not paid
	// <nil>
	// announced: a book
}
