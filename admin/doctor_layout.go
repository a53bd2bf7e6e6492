package admin

import (
	"slices"

	"github.com/rehop/rehop/internal/topology"
	"github.com/rehop/rehop/layout"
)

// layouts finds queues whose failures are counted in an x-death that clients send.
func (c *checkup) layouts() {
	told := c.options.Subscriptions
	for _, q := range c.chart.live.Queues {
		of, sure := told[q.Name].Layout, true
		if of == nil {
			of, sure = c.layoutOf(q.Name)
		}
		if of == nil || !layout.CountsInDeaths(of) {
			continue
		}
		severity, when := Info, "RabbitMQ 4 will ignore"
		if c.chart.version.atLeast(4, 0) && sure {
			severity = Warning
		}
		if c.chart.version.atLeast(4, 0) {
			when = "RabbitMQ " + c.chart.live.Version + " ignores"
		}
		found := "its layout is %s, which counts failures in the header x-death; %s what clients write there"
		if !sure {
			found = "if its subscription has not set reject, its layout %s counts failures in the header x-death; %s what clients write there"
		}
		c.findAs(severity, "layout.x-death", q.Object(), layout.WithoutDeaths(of), found, layout.Name(of), when)
	}
}

// layoutOf guesses the layout of a queue from the queues beside it, and whether that is sure. It knows those that count in x-death, by the names that
// they have unless set otherwise. Nil: it is none of them.
func (c *checkup) layoutOf(queue string) (of layout.Layout, sure bool) {
	live := c.chart.live
	bound := func(exchange, to string) bool {
		return slices.ContainsFunc(live.Bindings, func(b topology.Binding) bool { return b.Source == exchange && !b.ToExchange && b.Destination == to })
	}
	has := func(l layout.Layout) bool {
		return !slices.ContainsFunc(l.Around(layout.QueueSpec{Name: queue}).Queues, func(q topology.Queue) bool {
			_, there := live.Queue(q.Name)
			return !there
		})
	}
	rehop := bound(layout.HomeExchange, queue) || bound(layout.HomeExchange, layout.HomeQueue(queue))
	switch {
	case has(layout.PubSub{}):
		return layout.PubSub{}, true
	case rehop && has(layout.Sneakers{}):
		// Programs of Sneakers reject, and the broker counts that. Of rehop among them nothing on the broker says what it does.
		return layout.Sneakers{}, false
	}
	for _, b := range (layout.Tiers{}).Subscription(layout.QueueSpec{Name: queue}).Bindings {
		if b.Source != layout.ReturnExchange && bound(b.Source, queue) {
			return layout.Tiers{}, true
		}
	}
	return nil, false
}
