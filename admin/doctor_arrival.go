package admin

import (
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// letterSources are the queues whose dead letters come to a queue, by that queue.
func (c *checkup) letterSources() map[string][]topology.LiveQueue {
	router, sources := topologies.RouterOf(c.chart.live), make(map[string][]topology.LiveQueue)
	for _, q := range c.chart.live.Queues {
		exchange, dies := q.Effective("dead-letter-exchange")
		if !dies || q.Type == "stream" {
			continue
		}
		keys := router.Incoming(q.Name)
		if fixed, is := q.Effective("dead-letter-routing-key"); is {
			keys = []topologies.Keys{topologies.Key(fmt.Sprint(fixed))}
		}
		var to []string
		for _, k := range keys {
			to = append(to, router.Route(fmt.Sprint(exchange), k)...)
		}
		slices.Sort(to)
		for _, name := range slices.Compact(to) {
			sources[name] = append(sources[name], q)
		}
	}
	return sources
}

// letterLimit examines whether a quorum queue keeps the dead letters of others, and reports whether it has found something.
func (c *checkup) letterLimit(q topology.LiveQueue, sources []topology.LiveQueue) bool {
	const id = "queue.letters-limit"
	if _, dies := q.Effective("dead-letter-exchange"); dies || len(sources) == 0 {
		return false
	}
	fix := "set delivery-limit 1000000000 in a policy for it: " + c.ctl("rabbitmqctl set_policy -p %q …", "PUT /api/policies/%s/…")
	limit, set, byDefault := c.limitOfDeliveries(q)
	for _, source := range sources {
		died, limited, _ := c.limitOfDeliveries(source)
		if c.chart.version.atLeast(4, 3) && set && limit < highLimit && limited && source.Type == string(layout.Quorum) && died+1 >= limit {
			c.find(id, q.Object(), fix, "dead letters of queue %q can come with %d deliveries, and it drops a message that was delivered more than %d times%s", source.Name, died+1, limit, byDefault)
			return true
		}
	}
	switch {
	case byDefault != "":
		c.findAs(Warning, id, q.Object(), fix, "dead letters of queue %q come to it, and it drops a message that was delivered more than %d times%s", sources[0].Name, limit, byDefault)
		return true
	case !set && c.chart.version.before(4, 0) && !c.embedded():
		c.findAs(Info, id, q.Object(), fix+", before an upgrade to RabbitMQ 4", "dead letters of queue %q come to it, and on RabbitMQ 4 it would drop a message that was delivered more than %d times", sources[0].Name, defaultLimit)
		return true
	}
	return false
}

// unreplicated finds classic queues of a cluster in which messages wait for their next attempt, or rest.
func (c *checkup) unreplicated() {
	if len(c.chart.nodes) < 2 {
		return
	}
	roles, letters := c.roles(), c.letterSources()
	for _, q := range c.chart.live.Queues {
		_, mirrored := q.Effective("ha-mode")
		if q.Type != string(layout.Classic) || q.Exclusive || mirrored && c.chart.version.before(4, 0) {
			continue
		}
		_, waits := q.Effective("message-ttl")
		_, leaves := q.Effective("dead-letter-exchange")
		r := roles[q.Name]
		if waits && leaves || r == waiting || r == resting || r == moving || len(letters[q.Name]) > 0 {
			c.find("queue.not-replicated", q.Object(), c.otherwise(q.Name, "migrate it to a quorum queue (rehop topology migrate); rehop's own queues are quorum queues unless QueueType is classic"),
				"retries or failed messages are in it, it is a classic queue, and the cluster has %d nodes", len(c.chart.nodes))
		}
	}
}
