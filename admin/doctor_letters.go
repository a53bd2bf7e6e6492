package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// exchanges checks what happens to unroutable messages.
func (c *checkup) exchanges() {
	live := c.chart.live
	bound := make(map[string]bool)
	for _, b := range live.Bindings {
		bound[b.Source] = true
	}
	for _, x := range live.Exchanges {
		if x.Name == "" || strings.HasPrefix(x.Name, "amq.") {
			continue
		}
		v, set := x.Effective("alternate-exchange")
		alternate, _ := v.(string)
		_, exists := live.Exchange(alternate)
		switch {
		case set && !exists:
			c.find("exchange.alternate-missing", x.Object(), "declare that exchange, or correct the alternate exchange", "its alternate exchange %q does not exist", alternate)
		case !set && !x.Internal && x.Type != "fanout" && !strings.HasPrefix(x.Name, "rehop.") && bound[x.Name]:
			c.find("exchange.no-alternate", x.Object(), "set a policy for it: "+c.setPolicy()+" with {\"alternate-exchange\": \""+layouts.UnroutedExchange+"\"} for exchanges; or publish as mandatory, as rehop does", "it has no alternate exchange")
		}
	}
}

// setPolicy is how to set a policy.
func (c *checkup) setPolicy() string {
	return c.ctl("rabbitmqctl set_policy -p %q …", "PUT /api/policies/%s/…")
}

// deadLetters checks where dead letters go, and whether they can be lost.
func (c *checkup) deadLetters() {
	router := topologies.RouterOf(c.chart.live)
	for _, q := range c.chart.live.Queues {
		if !sets(q, "dead-letter-exchange") || q.Type == "stream" {
			continue
		}
		exchange := setting(q, "dead-letter-exchange")
		if _, exists := c.chart.live.Exchange(exchange); exchange != "" && !exists {
			c.find("queue.dead-letter-nowhere", q.Object(), "declare that exchange, or correct the dead-letter exchange", "its dead letters go to exchange %q, which does not exist", exchange)
		} else {
			c.arrival(router, q, exchange)
		}
		c.onTheWay(q)
	}
	for _, way := range router.Cycles() {
		c.find("queue.dead-letter-cycle", topology.Queue{Name: way[0]}.Object(),
			"dead-letter expired messages to a queue in which they stay, or have consumers reject them on the way: remove the message TTL or the maximum length from one of these queues",
			"messages that expire there, or exceed its limit, return to it: %s", strings.Join(way, " → "))
	}
}

// letterKeys are the keys that dead letters of a queue can have.
func letterKeys(router *topologies.Router, q topology.LiveQueue) (keys []topologies.Keys, fixed bool) {
	if key, fixed := q.Effective("dead-letter-routing-key"); fixed {
		return []topologies.Keys{topologies.Key(fmt.Sprint(key))}, true
	}
	return router.Incoming(q.Name), false
}

// arrival checks whether dead letters are routed to a queue, with each of the keys that they can have.
func (c *checkup) arrival(router *topologies.Router, q topology.LiveQueue, exchange string) {
	const id = "queue.dead-letter-nowhere"
	all, fixed := letterKeys(router, q)
	var lost []string
	for _, keys := range all {
		if len(router.Route(exchange, keys)) == 0 {
			lost = append(lost, fmt.Sprintf("%q", keys))
		}
	}
	names := strings.Join(lost, ", ")
	switch {
	case len(lost) == 0 && !fixed && exchange == "" && slices.Contains(all, topologies.AnyKey()) && !layouts.IsWaitQueue(q.Name):
		c.findAs(Warning, id, q.Object(), "set x-dead-letter-routing-key to the name of a queue",
			"its dead letters go to the queues whose names are the keys with which they were published, and it is bound for every key")
	case len(lost) == 0:
	case exchange == "" && fixed:
		c.find(id, q.Object(), "declare that queue, or correct x-dead-letter-routing-key", "its dead letters go to queue %s, which does not exist", names)
	case exchange == "":
		c.find(id, q.Object(), "set x-dead-letter-routing-key to the name of a queue", "its dead letters keep the key with which they were published, as %s, and no queue has that name", names)
	case len(router.Route(exchange, topologies.AnyKey())) == 0:
		c.find(id, q.Object(), "bind a queue to that exchange", "its dead letters go to exchange %q, to which no queue is bound", exchange)
	case fixed:
		c.find(id, q.Object(), "bind a queue to that exchange with this key, or correct x-dead-letter-routing-key",
			"its dead letters go to exchange %q with the key %s, for which no queue is bound there", exchange, names)
	default:
		c.find(id, q.Object(), "bind a queue to that exchange with these keys, or set x-dead-letter-routing-key",
			"its dead letters go to exchange %q with the key with which they were published, as %s, for which no queue is bound there", exchange, names)
	}
}

// onTheWay finds queues whose dead letters can be lost when a node dies.
func (c *checkup) onTheWay(q topology.LiveQueue) {
	severity := Info
	if sets(q, "message-ttl", "max-length", "max-length-bytes") {
		severity = Warning // it dead-letters messages in normal operation
	}
	switch {
	case q.Type == classic:
		c.findAs(severity, "queue.lossy-dead-letters", q.Object(), c.otherwise(q.Name, "migrate it to a quorum queue with x-dead-letter-strategy at-least-once and x-overflow reject-publish (rehop topology migrate)"),
			"it is a classic queue with a dead-letter exchange")
	case setting(q, "dead-letter-strategy") == "at-least-once" && setting(q, "overflow") != "reject-publish":
		c.find("queue.strategy-ignored", q.Object(), "set overflow reject-publish in a policy", "it has dead-letter-strategy at-least-once, and its overflow is drop-head")
	case !atLeastOnce(q):
		c.findAs(severity, "queue.lossy-dead-letters", q.Object(), "set dead-letter-strategy at-least-once and overflow reject-publish in a policy",
			"it is a quorum queue that dead-letters at most once")
	}
}

// letterSources are the queues that dead-letter to a queue, by that queue.
func (c *checkup) letterSources() map[string][]topology.LiveQueue {
	router, sources := topologies.RouterOf(c.chart.live), make(map[string][]topology.LiveQueue)
	for _, q := range c.chart.live.Queues {
		exchange, dies := q.Effective("dead-letter-exchange")
		if !dies || q.Type == "stream" {
			continue
		}
		var to []string
		keys, _ := letterKeys(router, q)
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

// letterLimit checks whether a quorum queue keeps the dead letters of other queues, and reports whether it has found something.
func (c *checkup) letterLimit(q topology.LiveQueue, sources []topology.LiveQueue) bool {
	const id = "queue.letters-limit"
	if sets(q, "dead-letter-exchange") || len(sources) == 0 {
		return false
	}
	fix := "set delivery-limit 1000000000 in a policy for it: " + c.setPolicy()
	limit, set, byDefault := c.limitOfDeliveries(q)
	for _, source := range sources {
		died, limited, _ := c.limitOfDeliveries(source)
		if c.chart.version.atLeast(4, 3) && set && limit < highLimit && limited && source.Type == quorum && died+1 >= limit {
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
