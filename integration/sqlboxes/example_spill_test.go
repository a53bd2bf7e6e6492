//go:build !race

package sqlboxes

import (
	"context"
	"fmt"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

// printSpill prints what goes into the outbox.
func printSpill(_ context.Context, m *rehop.Message, _ error) {
	fmt.Printf("%s is in the outbox\n", m.Body)
}

// away is a client that has lost its broker.
type away struct{ *rehop.Client }

func (away) State() rehop.State { return rehop.StateRecovering }

// While the broker cannot be reached, messages go into the outbox of a database. A relay publishes them later.
func Example_spill() {
	shop := openShop()
	defer shop.Close()
	measured := shop.receive("measurements", "")

	spill := outbox.Spill{Client: shop.client, Box: outbox.New(dialect.SQLite), DB: shop.db, Hooks: []outbox.Hooks{{OnSpill: printSpill}}}
	check(spill.Publish(shop.ctx, rehop.Message{Key: "measurements", Body: []byte("18 °C")}))
	fmt.Println("received:", <-measured)

	spill.Client = away{shop.client}
	check(spill.Publish(shop.ctx, rehop.Message{Key: "measurements", Body: []byte("19 °C")}))
	shop.relay()
	fmt.Println("received:", <-measured)
	// Output:
	// received: 18 °C
	// 19 °C is in the outbox
	// received: 19 °C
}
