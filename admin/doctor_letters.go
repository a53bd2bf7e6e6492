package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// deadLetters examines where dead letters go, and whether they can get lost on the way.
func (c *checkup) deadLetters() {
	router := topologies.RouterOf(c.chart.live)
	for _, q := range c.chart.live.Queues {
		v, dies := q.Effective("dead-letter-exchange")
		if !dies || q.Type == "stream" {
			continue
		}
		exchange, _ := v.(string)
		if _, there := c.chart.live.Exchange(exchange); exchange != "" && !there {
			c.find("queue.dead-letter-nowhere", q.Object(), "declare that exchange, or correct the dead-letter exchange", "its dead letters go to exchange %q, which does not exist", exchange)
		} else {
			c.arrival(router, q, exchange)
		}
		c.onTheWay(q)
	}
	for _, way := range router.Cycles() {
		c.find("queue.dead-letter-cycle", topology.Queue{Name: way[0]}.Object(),
			"lead what expires to a queue in which it stays, or have consumers reject it on the way: take the time to live or the maximum length off one of these queues",
			"what expires there, or is too much for it, comes back to it: %s", strings.Join(way, " → "))
	}
}

// arrival examines whether dead letters find a queue, with each of the keys that they can have.
func (c *checkup) arrival(router *topologies.Router, q topology.LiveQueue, exchange string) {
	const id = "queue.dead-letter-nowhere"
	fixed, isFixed := q.Effective("dead-letter-routing-key")
	if isFixed {
		key := fmt.Sprint(fixed)
		switch {
		case len(router.Route(exchange, topologies.Key(key))) > 0:
		case exchange == "":
			c.find(id, q.Object(), "declare that queue, or correct x-dead-letter-routing-key", "its dead letters go to queue %q, which does not exist", key)
		case len(router.Route(exchange, topologies.AnyKey())) == 0:
			c.find(id, q.Object(), "bind a queue to that exchange", "its dead letters go to exchange %q, to which no queue is bound", exchange)
		default:
			c.find(id, q.Object(), "bind a queue to that exchange with this key, or correct x-dead-letter-routing-key",
				"its dead letters go to exchange %q with the key %q, for which no queue is bound there", exchange, key)
		}
		return
	}
	var lost []string
	incoming := router.Incoming(q.Name)
	for _, keys := range incoming {
		if len(router.Route(exchange, keys)) == 0 {
			lost = append(lost, fmt.Sprintf("%q", keys))
		}
	}
	switch {
	case len(lost) == 0 && exchange == "" && slices.Contains(incoming, topologies.AnyKey()) && !layouts.IsWaitQueue(q.Name):
		c.findAs(Warning, id, q.Object(), "set x-dead-letter-routing-key to the name of a queue",
			"its dead letters go to the queues that are called like the keys with which they were published, and it is bound for every key")
	case len(lost) == 0:
	case exchange == "":
		c.find(id, q.Object(), "set x-dead-letter-routing-key to the name of a queue", "its dead letters keep the key with which they were published, as %s, and no queue is called like that", strings.Join(lost, ", "))
	case len(router.Route(exchange, topologies.AnyKey())) == 0:
		c.find(id, q.Object(), "bind a queue to that exchange", "its dead letters go to exchange %q, to which no queue is bound", exchange)
	default:
		c.find(id, q.Object(), "bind a queue to that exchange with these keys, or set x-dead-letter-routing-key",
			"its dead letters go to exchange %q with the key with which they were published, as %s, for which no queue is bound there", exchange, strings.Join(lost, ", "))
	}
}

// onTheWay finds queues whose dead letters can get lost.
func (c *checkup) onTheWay(q topology.LiveQueue) {
	_, expires := q.Effective("message-ttl")
	_, length := q.Effective("max-length")
	_, bytes := q.Effective("max-length-bytes")
	severity := Info
	if expires || length || bytes {
		severity = Warning // messages die in the normal course of things
	}
	switch {
	case q.Type == string(layout.Classic):
		c.findAs(severity, "queue.lossy-dead-letters", q.Object(), c.otherwise(q.Name, "migrate it to a quorum queue with x-dead-letter-strategy at-least-once and x-overflow reject-publish (rehop topology migrate)"),
			"it is a classic queue with a dead-letter exchange")
	case setting(q, "dead-letter-strategy") == "at-least-once" && setting(q, "overflow") != "reject-publish":
		c.find("queue.strategy-ignored", q.Object(), "set overflow reject-publish in a policy", "it asks for at-least-once dead-lettering, and its overflow behaviour is drop-head")
	case !atLeastOnce(q):
		c.findAs(severity, "queue.lossy-dead-letters", q.Object(), "set dead-letter-strategy at-least-once and overflow reject-publish in a policy",
			"it is a quorum queue that dead-letters at most once")
	}
}
