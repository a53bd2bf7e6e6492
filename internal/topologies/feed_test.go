package topologies

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rehop/rehop/topology"
)

// Whatever can send a dead letter to a queue by its name is found, and the way that it takes; what cannot is not.
func TestFeeders(t *testing.T) {
	t.Parallel()
	byName := topology.Args{"x-dead-letter-exchange": "", "x-message-ttl": 1000}
	dead := func(exchange, key string) topology.Args {
		return topology.Args{"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}
	}
	exchange := func(name, kind string) topology.LiveExchange {
		return topology.LiveExchange{Exchange: topology.Exchange{Name: name, Type: kind}}
	}
	byPolicy := liveQueue("ruled", nil)
	byPolicy.PolicyArgs = topology.Args{"dead-letter-exchange": "", "dead-letter-routing-key": "q"}
	live := topology.Live{
		Exchanges: []topology.LiveExchange{
			exchange("fanout", "fanout"), exchange("topic", "topic"), exchange("headers", "headers"), exchange("direct", "direct"), exchange("strange", "x-random"),
			{Exchange: topology.Exchange{Name: "spared", Type: "direct", Args: topology.Args{"alternate-exchange": ""}}},
		},
		Queues: []topology.LiveQueue{
			liveQueue("q", dead("", "named")),
			liveQueue("named", dead("", "q")),
			byPolicy,
			liveQueue("before", dead("", "named")),
			liveQueue("long before", dead("direct", "to before")),
			liveQueue("fanned", byName),
			liveQueue("topical", byName),
			liveQueue("headed", byName),
			liveQueue("strange", byName),
			liveQueue("directed", byName),
			liveQueue("spare", dead("spared", "q")),
			liveQueue("by own name", topology.Args{"x-dead-letter-exchange": "direct"}),

			liveQueue("no letters", nil),
			liveQueue("other key", dead("", "elsewhere")),
			liveQueue("other topic", byName),
			liveQueue("unbound", byName),
			liveQueue("to binding", dead("direct", "q key")),        // what comes by a binding is led aside
			liveQueue("through q", dead("direct", "q key")),         // likewise
			liveQueue("shares fanned", dead("fanout", "unrelated")), // has another key there
			liveQueue("circle", dead("", "circle")),
		},
		Bindings: []topology.Binding{
			{Source: "fanout", Destination: "fanned"}, {Source: "topic", Destination: "topical", Key: "#"}, {Source: "headers", Destination: "headed"},
			{Source: "strange", Destination: "strange"}, {Source: "direct", Destination: "directed", Key: "q"},
			{Source: "direct", Destination: "before", Key: "to before"}, {Source: "topic", Destination: "by own name", Key: "foo"}, {Source: "direct", Destination: "named", Key: "by own name"},
			{Source: "direct", Destination: "q", Key: "q key"}, {Source: "topic", Destination: "other topic", Key: "q.*"},
		},
	}
	want := []string{
		"named []", "ruled []", "before [named]", "long before [before named]", "fanned []", "topical []", "headed []", "strange []", "directed []", "spare []", "by own name [named]",
	}
	told := func(feeders []Feeder) (all []string) {
		for _, f := range feeders {
			all = append(all, fmt.Sprint(f.Name, " ", f.Through))
		}
		return all
	}
	anyQueue := func(topology.LiveQueue) bool { return true }
	if got := told(RouterOf(live).Feeders("q", anyQueue)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// The queue is gone for a moment, and they dead-letter to it anyway.
	gone := live
	gone.Queues = live.Queues[1:]
	if got := told(RouterOf(gone).Feeders("q", anyQueue)); !slices.Equal(got, want) {
		t.Errorf("without the queue got  %q\nwant %q", got, want)
	}
	// A queue counts by the last one on its way. "fanned" can send to every queue that has a name, "named" among them.
	if got, want := told(RouterOf(live).Feeders("q", func(q topology.LiveQueue) bool { return q.Name == "named" })), []string{
		"named []", "before [named]", "long before [before named]", "fanned [named]", "topical [named]", "headed [named]", "strange [named]", "by own name [named]",
	}; !slices.Equal(got, want) {
		t.Errorf("by way of named got  %q\nwant %q", got, want)
	}
}
