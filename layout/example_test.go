package layout_test

import (
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

// A subscription that shares its queue with Ruby workers has their layout. Topology lists what it
// declares, without a broker.
func ExampleSneakers() {
	plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{
		Queue:  "downloads",
		Layout: layout.Sneakers{Delay: 30 * time.Second, Retries: 3},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range plan.Queues {
		if q.Name == "downloads-retry" {
			fmt.Println(q.Name, "keeps messages for", q.Args["x-message-ttl"], "ms")
		}
	}
	// Output: downloads-retry keeps messages for 30000 ms
}

// Settings that are impossible are an error before anything is declared.
func ExampleTiers() {
	_, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{
		Queue:  "mail",
		Layout: layout.Tiers{Tiers: []time.Duration{time.Minute, time.Minute}},
	})
	fmt.Println(err)
	// Output: rehop: subscription "mail": Layout: Tiers.Tiers: tier 1m0s is there twice
}
