package topology_test

import (
	"fmt"

	"github.com/rehop/rehop/topology"
)

// Compare a plan with what a broker has. Admin.Live of package admin reads the latter from a broker.
func ExampleCompare() {
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: "order", Type: "topic"}},
		Queues:    []topology.Queue{{Name: "invoices", Args: topology.Args{"x-max-length": 1000}}},
		Bindings:  []topology.Binding{{Source: "order", Destination: "invoices", Key: "order.#"}},
	}
	live := topology.Live{
		Exchanges: []topology.LiveExchange{{Exchange: plan.Exchanges[0], Durable: true}},
		Queues:    []topology.LiveQueue{{Queue: topology.Queue{Name: "invoices"}, Type: "classic", Durable: true}},
	}
	for _, d := range topology.Compare(plan, live, nil) {
		fmt.Printf("%s: %s: %s\n", d.Kind, d.Object, d.Do)
	}
	// Output:
	// missing: binding of exchange "order" to queue "invoices" with key "order.#": declare
	// differs: queue "invoices": migrate
}

// Draw a plan as a Mermaid flowchart, which GitHub shows in Markdown files.
func ExamplePlan_Mermaid() {
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: "order", Type: "topic"}},
		Queues:    []topology.Queue{{Name: "invoices"}},
		Bindings:  []topology.Binding{{Source: "order", Destination: "invoices", Key: "order.created"}},
	}
	fmt.Print(plan.Mermaid())
	// Output:
	// flowchart LR
	//   n0(["order<br/>topic"])
	//   n1["invoices<br/>classic"]
	//   n0 -->|"order.created"| n1
}

// Merge plans of several services. An object that both declare, differently, is an error.
func ExamplePlan_Merge() {
	plan := topology.Plan{Queues: []topology.Queue{{Name: "invoices"}}}
	err := plan.Merge(topology.Plan{Queues: []topology.Queue{{Name: "invoices", AutoDelete: true}}})
	fmt.Println(err != nil)
	// Output: true
}
