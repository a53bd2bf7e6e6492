package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/topology"
	"github.com/rehop/rehop/layout"
)

// highLimit is a delivery limit that people do not reach by looking.
const highLimit = 100_000

// queues examines how each queue was declared, and what policies make of it.
func (c *checkup) queues() {
	roles := c.roles()
	for _, q := range c.chart.live.Queues {
		if q.Type == "stream" {
			continue
		}
		c.keeping(q)
		c.oldArguments(q)
		if q.Type == string(layout.Quorum) {
			c.deliveryLimit(q, roles[q.Name])
		}
	}
}

// keeping finds queues that drop messages.
func (c *checkup) keeping(q topology.LiveQueue) {
	if !q.Durable && !q.Exclusive {
		c.find("queue.transient", q.Object(), "declare it durable; admin.Migrate moves what is in it", "it is not durable")
	}
	if _, dies := q.Effective("dead-letter-exchange"); dies {
		return
	}
	const fix = "set x-dead-letter-exchange, or dead-letter-exchange in a policy"
	if v, set := q.Effective("message-ttl"); set {
		ttl, _ := number(v)
		c.find("queue.ttl-drops", q.Object(), fix, "its messages expire after %v, and it has no dead-letter exchange", time.Duration(ttl)*time.Millisecond)
	}
	for key, unit := range map[string]string{"max-length": "messages", "max-length-bytes": "bytes"} {
		if v, set := q.Effective(key); set && !strings.HasPrefix(setting(q, "overflow"), "reject-publish") {
			c.find("queue.length-drops", q.Object(), fix+", or x-overflow reject-publish", "it holds %v %s at the most, and has no dead-letter exchange", v, unit)
		}
	}
}

// oldArguments finds what later versions do not know.
func (c *checkup) oldArguments(q topology.LiveQueue) {
	var old []string
	for name := range q.Args {
		if slices.Contains([]string{"x-queue-mode", "x-ha-policy", "x-queue-master-locator", "x-max-in-memory-length", "x-max-in-memory-bytes"}, name) {
			old = append(old, fmt.Sprintf("%s = %v", name, q.Args[name]))
		}
	}
	if mode, ruled := q.Ruled["queue-mode"]; ruled {
		old = append(old, fmt.Sprintf("queue-mode = %v (policy %s)", mode, q.Policy))
	}
	if len(old) > 0 {
		slices.Sort(old)
		c.find("queue.old-arguments", q.Object(), "leave them out; admin.Migrate moves what is in the queue", "it has %s", strings.Join(old, ", "))
	}
}

// deliveryLimit examines what becomes of a message that is given back over and over.
func (c *checkup) deliveryLimit(q topology.LiveQueue, r role) {
	v, set := q.Effective("delivery-limit")
	limit, _ := number(v)
	set = set && limit >= 0
	byDefault := ""
	if !set && c.chart.version.atLeast(4, 0) && !(v != nil && limit < 0) {
		limit, set, byDefault = 20, true, ", which is RabbitMQ 4's own limit"
	}
	_, dies := q.Effective("dead-letter-exchange")
	switch {
	case r == resting || r == moving:
		if set && limit < highLimit {
			c.find("queue.resting-limit", q.Object(), "migrate it to what rehop declares (admin.Migrate): x-delivery-limit 1000000000", "it drops a message after %d deliveries%s", limit, byDefault)
		}
	case r == waiting:
	case !set && (r == consumed || q.Consumers > 0):
		c.find("queue.no-delivery-limit", q.Object(), "set delivery-limit in a policy, with a dead-letter-exchange", "it has no delivery limit")
	case set && !dies:
		c.find("queue.limit-drops", q.Object(), "set x-dead-letter-exchange, or dead-letter-exchange in a policy", "it drops a message after %d deliveries%s, and has no dead-letter exchange", limit, byDefault)
	}
}

// deadLetters examines where dead letters go, and whether they can get lost on the way.
func (c *checkup) deadLetters() {
	live := c.chart.live
	fed := make(map[string]bool)
	for _, b := range live.Bindings {
		fed[b.Source] = true
	}
	for _, q := range live.Queues {
		v, dies := q.Effective("dead-letter-exchange")
		if !dies || q.Type == "stream" {
			continue
		}
		exchange, _ := v.(string)
		key := setting(q, "dead-letter-routing-key")
		x, there := live.Exchange(exchange)
		_, alternate := x.Effective("alternate-exchange")
		switch {
		case exchange == "" && key != "":
			if _, target := live.Queue(key); !target {
				c.find("queue.dead-letter-nowhere", q.Object(), "declare that queue, or correct x-dead-letter-routing-key", "its dead letters go to queue %q, which does not exist", key)
			}
		case exchange != "" && !there:
			c.find("queue.dead-letter-nowhere", q.Object(), "declare that exchange, or correct the dead-letter exchange", "its dead letters go to exchange %q, which does not exist", exchange)
		case exchange != "" && !fed[exchange] && !alternate:
			c.find("queue.dead-letter-nowhere", q.Object(), "bind a queue to that exchange", "its dead letters go to exchange %q, to which no queue is bound", exchange)
		}
		c.onTheWay(q)
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
		c.findAs(severity, "queue.lossy-dead-letters", q.Object(), "migrate it to a quorum queue with x-dead-letter-strategy at-least-once and x-overflow reject-publish (admin.Migrate)",
			"it is a classic queue with a dead-letter exchange")
	case setting(q, "dead-letter-strategy") == "at-least-once" && setting(q, "overflow") != "reject-publish":
		c.find("queue.strategy-ignored", q.Object(), "set overflow reject-publish in a policy", "it asks for at-least-once dead-lettering, and its overflow behaviour is drop-head")
	case !atLeastOnce(q):
		c.findAs(severity, "queue.lossy-dead-letters", q.Object(), "set dead-letter-strategy at-least-once and overflow reject-publish in a policy",
			"it is a quorum queue that dead-letters at most once")
	}
}

// members examines the members of quorum queues.
func (c *checkup) members() {
	nodes := len(c.chart.nodes)
	for _, q := range c.chart.live.Queues {
		vitals := c.chart.queues[q.Name]
		members, online := len(vitals.Members), len(vitals.Online)
		if q.Type != string(layout.Quorum) || members == 0 {
			continue
		}
		switch {
		case online <= members/2:
			c.find("queue.no-majority", q.Object(), "start the nodes that are down: "+strings.Join(missingFrom(vitals.Members, vitals.Online), ", "), "%d of its %d members are online", online, members)
		case online < members:
			c.find("queue.member-down", q.Object(), "start the nodes that are down: "+strings.Join(missingFrom(vitals.Members, vitals.Online), ", "), "%d of its %d members are online", online, members)
		case members < min(nodes, 3):
			c.find("queue.few-members", q.Object(), "rabbitmq-queues grow NODE all", "it has %d members, and the cluster %d nodes", members, nodes)
		}
	}
}

func missingFrom(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
