package admin

import (
	"maps"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// layouts finds queues whose layout counts failures in a way that this release, or a later one, does not let programs share.
func (c *checkup) layouts() {
	for _, q := range c.chart.live.Queues {
		of, sure := c.options.Subscriptions[q.Name].Layout, true
		if of == nil {
			if guess, known := c.layoutOf(q.Name); guess != nil {
				of, sure = guess.Settings(), known
			}
		}
		switch {
		case of == nil:
		case layouts.CountsInDeaths(of):
			c.countsInDeaths(q, of, sure)
		case layouts.CountsInRejections(of):
			c.countsInRejections(q, of)
		}
	}
}

// countsInDeaths finds a queue whose layout counts failures in an x-death that clients send.
func (c *checkup) countsInDeaths(q topology.LiveQueue, of layout.Layout, sure bool) {
	severity, when := Info, "RabbitMQ 4 will ignore"
	if c.chart.version.atLeast(4, 0) {
		when = "RabbitMQ " + c.chart.live.Version + " ignores"
		if sure {
			severity = Warning
		}
	}
	found := "its layout is %s, which counts failures in the header x-death; %s what clients write there"
	if !sure {
		found = "if its subscription has not set reject, its layout %s counts failures in the header x-death; %s what clients write there"
	}
	lasts := q.Type == quorum || c.chart.version.before(4, 3)
	c.findAs(severity, "layout.x-death", q.Object(), layouts.WithoutDeaths(of, lasts), found, layouts.Name(of), when)
}

// countsInRejections finds a classic queue whose layout has the broker count failures.
func (c *checkup) countsInRejections(q topology.LiveQueue, of layout.Layout) {
	if q.Type != classic {
		return
	}
	severity, when := Info, "RabbitMQ 4.3 will mark"
	if c.chart.version.atLeast(4, 3) {
		severity, when = Warning, "RabbitMQ "+c.chart.live.Version+" marks"
	}
	c.findAs(severity, "layout.rejections", q.Object(), layouts.WithoutRejections(of),
		"its layout is %s with reject, by which the broker counts failures; %s a rejected message of this classic queue as redelivered when it returns, rehop publishes it again, and the broker counts from one",
		layouts.Name(of), when)
}

// priorities finds subscriptions with priorities that this release does not have.
func (c *checkup) priorities() {
	for _, queue := range slices.Sorted(maps.Keys(c.options.Subscriptions)) {
		if c.options.Subscriptions[queue].Priorities && c.chart.version.before(4, 0) {
			c.find("queue.no-priorities", topology.Queue{Name: queue}.Object(), "use a classic queue, leave out max-priority, or use RabbitMQ 4.0 or later",
				"its subscription sets max-priority for a quorum queue, and quorum queues of RabbitMQ %s have no priorities", c.chart.live.Version)
		}
	}
}

// declaredByOthers are the queues that the programs of a fleet declare, too, in the layout that rehop shares with them. If such a queue gets another type
// or other arguments, the broker refuses their declarations and rehop's.
func (c *checkup) declaredByOthers() map[string]bool {
	shared := make(map[string]bool)
	for _, q := range c.chart.live.Queues {
		of := c.known.byQueue[q.Name]
		if of == nil {
			of, _ = c.layoutOf(q.Name)
		}
		if of == nil && c.returnsByHeader(q.Name) {
			for _, usual := range []layout.Layout{layout.DLX{}, layout.Envelope{}} {
				if l := layouts.Must(usual); c.has(l, q.Name) {
					of = l
				}
			}
		}
		if _, own := of.(layouts.Native); of == nil || own {
			continue
		}
		shared[q.Name] = true
		for _, other := range of.RetryTopology(layouts.QueueSpec{Name: q.Name}).Queues {
			shared[other.Name] = true
		}
	}
	return shared
}

// otherwise is how to fix a queue that needs another type or other arguments: the given fix, unless other programs declare the queue, too.
func (c *checkup) otherwise(queue, fix string) string {
	if !c.chart.shared[queue] {
		return fix
	}
	return "do not change this queue alone: the programs that share its layout declare it with its present type and arguments, and after a change the broker refuses their declarations and rehop's (406). " +
		"Change the declaration in all of these programs and in rehop at the same time, or move to the native layout (docs/topology.md, From a layout to the native one)"
}

// isBound reports whether a queue is bound to an exchange.
func (c *checkup) isBound(exchange, queue string) bool {
	return slices.ContainsFunc(c.chart.live.Bindings, func(b topology.Binding) bool { return b.Source == exchange && !b.ToExchange && b.Destination == queue })
}

// returnsByHeader reports whether rehop's messages return to a queue as they do in layouts that other programs share.
func (c *checkup) returnsByHeader(queue string) bool {
	return c.isBound(layouts.HomeExchange, queue) || c.isBound(layouts.HomeExchange, layouts.HomeQueue(queue))
}

// has reports whether the other queues exist that a layout has for a queue.
func (c *checkup) has(l layouts.Layout, queue string) bool {
	return !slices.ContainsFunc(l.RetryTopology(layouts.QueueSpec{Name: queue}).Queues, func(q topology.Queue) bool {
		_, exists := c.chart.live.Queue(q.Name)
		return !exists
	})
}

// layoutOf guesses the layout of a queue from its other queues, and whether that is sure. It knows layouts that count in x-death, with their default
// names. Nil: it is none of them.
func (c *checkup) layoutOf(queue string) (of layouts.Layout, sure bool) {
	pubsub, sneakers, tiers := layouts.Must(layout.PubSub{}), layouts.Must(layout.Sneakers{}), layouts.Must(layout.Tiers{})
	switch {
	case c.has(pubsub, queue):
		return pubsub, true
	case c.returnsByHeader(queue) && c.has(sneakers, queue):
		// Programs of Sneakers reject messages, and the broker counts that. Whether rehop does so, too, cannot be seen on the broker.
		return sneakers, false
	}
	for _, b := range tiers.Subscription(layouts.QueueSpec{Name: queue}).Bindings {
		if b.Source != layouts.ReturnExchange && c.isBound(b.Source, queue) {
			return tiers, true
		}
	}
	return nil, false
}
