package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// highLimit is a delivery limit that people do not reach by looking.
const highLimit = 100_000

// queues examines how each queue was declared, and what policies make of it.
func (c *checkup) queues() {
	roles, letters := c.roles(), c.letterSources()
	for _, q := range c.chart.live.Queues {
		if q.Type == "stream" || roles[q.Name] == recovered {
			continue
		}
		c.keeping(q)
		c.oldArguments(q)
		if q.Type == string(layout.Quorum) && !c.letterLimit(q, letters[q.Name]) {
			c.deliveryLimit(q, roles[q.Name])
		}
	}
}

// keeping finds queues that drop messages.
func (c *checkup) keeping(q topology.LiveQueue) {
	if !q.Durable && !q.Exclusive {
		fix := "declare it durable, or exclusive; rehop topology migrate moves what is in it"
		if c.chart.version.before(4, 3) {
			fix += "; RabbitMQ 4.3 refuses to declare it unless deprecated_features.permit.transient_nonexcl_queues = true is in the rabbitmq.conf of all nodes"
		}
		c.find("queue.transient", q.Object(), c.otherwise(q.Name, fix), "it is not durable")
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
	byPolicy := 0
	for _, key := range []string{"queue-mode", "queue-master-locator"} {
		if value, ruled := q.Ruled[key]; ruled {
			old = append(old, fmt.Sprintf("%s = %v (policy %s)", key, value, q.Policy))
			byPolicy++
		}
	}
	if len(old) > 0 {
		slices.Sort(old)
		fix := "leave them out; rehop topology migrate moves what is in the queue"
		if strings.Contains(strings.Join(old, " "), "queue-master-locator") {
			fix += "; x-queue-leader-locator takes the place of x-queue-master-locator, which RabbitMQ 4.3 refuses"
		}
		if fix = c.otherwise(q.Name, fix); byPolicy == len(old) {
			fix = "take the keys out of the policy"
		}
		c.find("queue.old-arguments", q.Object(), fix, "it has %s", strings.Join(old, ", "))
	}
}

// defaultLimit is the delivery limit of quorum queues that have none of their own, from RabbitMQ 4.0 on.
const defaultLimit = 20

// limitOfDeliveries is after how many deliveries a quorum queue gives a message up, and, if nobody has set that, a remark.
func (c *checkup) limitOfDeliveries(q topology.LiveQueue) (limit int, set bool, byDefault string) {
	v, said := q.Effective("delivery-limit")
	limit, _ = number(v)
	if !said && c.chart.version.atLeast(4, 0) {
		return defaultLimit, true, ", which is RabbitMQ 4's own limit"
	}
	return limit, said && limit >= 0, ""
}

// deliveryLimit examines what becomes of a message that is given back over and over.
func (c *checkup) deliveryLimit(q topology.LiveQueue, r role) {
	limit, set, byDefault := c.limitOfDeliveries(q)
	_, dies := q.Effective("dead-letter-exchange")
	switch {
	case r == resting || r == moving:
		if set && limit < highLimit {
			fix := "migrate it to what rehop declares (rehop topology migrate): x-delivery-limit 1000000000"
			if own := q.Args["x-delivery-limit"] != nil; c.chart.shared[q.Name] && own {
				fix = c.otherwise(q.Name, fix)
			} else if c.chart.shared[q.Name] {
				fix = "set delivery-limit 1000000000 in a policy for it"
			}
			c.find("queue.failed-limit", q.Object(), fix, "it drops a message after %d deliveries%s", limit, byDefault)
		}
	case r == waiting:
	case !set && (r == consumed || q.Consumers > 0):
		c.find("queue.no-delivery-limit", q.Object(), "set delivery-limit in a policy, with a dead-letter-exchange", "it has no delivery limit")
	case set && !dies:
		c.find("queue.limit-drops", q.Object(), "set x-dead-letter-exchange, or dead-letter-exchange in a policy", "it drops a message after %d deliveries%s, and has no dead-letter exchange", limit, byDefault)
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
