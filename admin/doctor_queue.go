package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// highLimit is a delivery limit that nobody reaches by listing messages.
const highLimit = 100_000

// queues checks the arguments of each queue, and its settings by policies.
func (c *checkup) queues() {
	for _, q := range c.chart.live.Queues {
		if q.Type == "stream" || c.chart.roles[q.Name] == roleRecovered {
			continue
		}
		c.keeping(q)
		c.oldArguments(q)
		if q.Type == quorum && !c.letterLimit(q, c.chart.letters[q.Name]) {
			c.deliveryLimit(q, c.chart.roles[q.Name])
		}
	}
}

// keeping finds queues that drop messages.
func (c *checkup) keeping(q topology.LiveQueue) {
	if !q.Durable && !q.Exclusive {
		fix := "declare it durable, or exclusive; rehop topology migrate moves its messages"
		if c.chart.version.before(4, 3) {
			fix += "; RabbitMQ 4.3 refuses to declare it unless deprecated_features.permit.transient_nonexcl_queues = true is in the rabbitmq.conf of all nodes"
		}
		c.find("queue.transient", q.Object(), c.otherwise(q.Name, fix), "it is not durable")
	}
	if sets(q, "dead-letter-exchange") {
		return
	}
	const fix = "set x-dead-letter-exchange, or dead-letter-exchange in a policy"
	if sets(q, "message-ttl") {
		ttl, _ := limitOf(q, "message-ttl")
		c.find("queue.ttl-drops", q.Object(), fix, "its messages expire after %v, and it has no dead-letter exchange", time.Duration(ttl)*time.Millisecond)
	}
	if c.isBound(layouts.ReportsExchange, q.Name) {
		return // it collects copies, and whoever reads them compares the index with the failed queues
	}
	for key, unit := range map[string]string{"max-length": "messages", "max-length-bytes": "bytes"} {
		if v, set := q.Effective(key); set && drops(q) {
			c.find("queue.length-drops", q.Object(), fix+", or x-overflow reject-publish", "it holds at most %v %s, and has no dead-letter exchange", v, unit)
		}
	}
}

// oldArguments finds arguments and policy keys that later versions do not have.
func (c *checkup) oldArguments(q topology.LiveQueue) {
	var old []string
	for _, name := range []string{"x-queue-mode", "x-ha-policy", "x-queue-master-locator", "x-max-in-memory-length", "x-max-in-memory-bytes"} {
		if value, set := q.Args[name]; set {
			old = append(old, fmt.Sprintf("%s = %v", name, value))
		}
	}
	declared := len(old)
	for _, key := range []string{"queue-mode", "queue-master-locator"} {
		if value, byPolicy := q.PolicyArgs[key]; byPolicy {
			old = append(old, fmt.Sprintf("%s = %v (policy %s)", key, value, q.Policy))
		}
	}
	if len(old) == 0 {
		return
	}
	slices.Sort(old)
	all, fix := strings.Join(old, ", "), "remove the keys from the policy"
	if declared > 0 {
		fix = "leave them out; rehop topology migrate moves the messages of the queue"
		if strings.Contains(all, "queue-master-locator") {
			fix += "; x-queue-leader-locator replaces x-queue-master-locator, which RabbitMQ 4.3 refuses"
		}
		fix = c.otherwise(q.Name, fix)
	}
	c.find("queue.old-arguments", q.Object(), fix, "it has %s", all)
}

// defaultLimit is the delivery limit of quorum queues without their own, from RabbitMQ 4.0 on.
const defaultLimit = 20

// limitOfDeliveries is after how many deliveries a quorum queue drops or dead-letters a message. byDefault is a remark if that is not set.
func (c *checkup) limitOfDeliveries(q topology.LiveQueue) (limit int, set bool, byDefault string) {
	set = sets(q, "delivery-limit")
	if !set && c.chart.version.atLeast(4, 0) {
		return defaultLimit, true, ", which is RabbitMQ 4's own limit"
	}
	limit, _ = limitOf(q, "delivery-limit")
	return limit, set && limit >= 0, ""
}

// deliveryLimit checks what happens to a message that is returned again and again.
func (c *checkup) deliveryLimit(q topology.LiveQueue, r role) {
	limit, set, byDefault := c.limitOfDeliveries(q)
	switch {
	case r == roleFailed || r == roleMigrating:
		if set && limit < highLimit {
			fix := "migrate it to what rehop declares (rehop topology migrate): x-delivery-limit 1000000000"
			if own := q.Args["x-delivery-limit"] != nil; c.chart.shared[q.Name] && own {
				fix = c.otherwise(q.Name, fix)
			} else if c.chart.shared[q.Name] {
				fix = "set delivery-limit 1000000000 in a policy for it"
			}
			c.find("queue.failed-limit", q.Object(), fix, "it drops a message after %d deliveries%s", limit, byDefault)
		}
	case r == roleDelay:
	case c.isBound(layouts.ReportsExchange, q.Name): // as in keeping
	case !set && (r == roleConsumed || q.Consumers > 0):
		c.find("queue.no-delivery-limit", q.Object(), "set delivery-limit in a policy, with a dead-letter-exchange", "it has no delivery limit")
	case set && !sets(q, "dead-letter-exchange"):
		c.find("queue.limit-drops", q.Object(), "set x-dead-letter-exchange, or dead-letter-exchange in a policy", "it drops a message after %d deliveries%s, and has no dead-letter exchange", limit, byDefault)
	}
}

// members checks the members of quorum queues.
func (c *checkup) members() {
	nodes := len(c.chart.nodes)
	for _, q := range c.chart.live.Queues {
		vitals := c.chart.queues[q.Name]
		members, online := len(vitals.Members), len(vitals.Online)
		if q.Type != quorum || members == 0 {
			continue
		}
		id := "queue.member-down"
		if online <= members/2 {
			id = "queue.no-majority"
		}
		switch {
		case online < members:
			down := slices.DeleteFunc(slices.Clone(vitals.Members), func(node string) bool { return slices.Contains(vitals.Online, node) })
			c.find(id, q.Object(), "start the nodes that are down: "+strings.Join(down, ", "), "%d of its %d members are online", online, members)
		case members < min(nodes, 3):
			c.find("queue.few-members", q.Object(), "rabbitmq-queues grow NODE all", "it has %d members, and the cluster %d nodes", members, nodes)
		}
	}
}

// unreplicated finds classic queues of a cluster with waiting or failed messages.
func (c *checkup) unreplicated() {
	if len(c.chart.nodes) < 2 {
		return
	}
	for _, q := range c.chart.live.Queues {
		if q.Type != classic || q.Exclusive || sets(q, "ha-mode") && c.chart.version.before(4, 0) {
			continue
		}
		delays := sets(q, "message-ttl") && sets(q, "dead-letter-exchange")
		if delays || slices.Contains([]role{roleDelay, roleFailed, roleMigrating}, c.chart.roles[q.Name]) || len(c.chart.letters[q.Name]) > 0 {
			c.find("queue.not-replicated", q.Object(), c.otherwise(q.Name, "migrate it to a quorum queue (rehop topology migrate); rehop's own queues are quorum queues unless the queue type of its subscription is classic"),
				"retries or failed messages are in it, it is a classic queue, and the cluster has %d nodes", len(c.chart.nodes))
		}
	}
}

// contents checks how many messages the queues hold.
func (c *checkup) contents() {
	for _, q := range c.chart.live.Queues {
		n := q.Messages()
		if q.Unacked >= c.options.MaxUnacked {
			c.find("queue.unacked", q.Object(), "lower the prefetch of its consumers, check whether they are stuck, and have them ack what they have handled", "%d messages are unacked", q.Unacked)
		}
		c.expiring(q, n)
		switch {
		case c.chart.roles[q.Name] == roleMigrating:
			c.find("queue.migration", topology.Object{Kind: "queue", Name: migratedQueue(c.chart.live, q.Name)}, "run the migration again (rehop topology migrate): it continues where it stopped", "queue %q keeps %d messages of it", q.Name, n)
		case c.chart.roles[q.Name] == roleRecovered:
			c.recovered(q, n)
		case n == 0:
		case q.Name == layouts.OrphansQueue:
			c.find("queue.orphans", q.Object(), "declare the queues that they belong to, and replay them (rehop failed replay)", "%d messages have lost their queue", n)
		case q.Name == layouts.UnroutedQueue:
			c.find("queue.unrouted", q.Object(), "bind a queue for their keys, and replay them (rehop failed replay)", "it has %d unroutable messages", n)
		case c.chart.roles[q.Name] == roleFailed:
			c.failed(q, n)
		case c.chart.roles[q.Name] == roleDelay:
		case q.Consumers == 0:
			c.find("queue.unconsumed", q.Object(), "start its consumers, or unbind and delete it: "+c.deleteQueue(q.Name), "it has %d messages and no consumer", n)
		}
	}
}

// deleteQueue is how to delete a queue.
func (c *checkup) deleteQueue(name string) string {
	return c.ctl("rabbitmqctl delete_queue -p %q "+strconv.Quote(name), "DELETE /api/queues/%s/"+url.PathEscape(name))
}

// recovered checks a queue that a repair of an embedded broker has created.
func (c *checkup) recovered(q topology.LiveQueue, n int) {
	if n == 0 {
		c.findAs(Info, "queue.recovered", q.Object(), c.deleteQueue(q.Name), "rehop broker repair has created it, and it is empty now")
		return
	}
	c.find("queue.recovered", q.Object(), "list them (rehop failed ls "+q.Name+"), declare and bind the queue that they belong to, and run rehop failed replay "+q.Name+
		": messages that were waiting or had failed return to their queue, others are published to their exchange again, with their key; then delete it: "+c.deleteQueue(q.Name),
		"rehop broker repair has put %d messages there whose own queue is lost", n)
}

// expiring finds queues that are about to be deleted with their messages.
func (c *checkup) expiring(q topology.LiveQueue, n int) {
	limit, set := limitOf(q, "expires")
	if !set || n == 0 || q.Consumers > 0 {
		return
	}
	c.find("queue.expires", q.Object(), "start its consumers, or remove x-expires (expires in a policy); messages of a deleted queue are not dead-lettered",
		"it holds %d messages, has no consumer, and is deleted when it was not used for %v", n, time.Duration(limit)*time.Millisecond)
}

// failed checks a failed queue.
func (c *checkup) failed(q topology.LiveQueue, n int) {
	if n >= c.options.MaxFailed && !sets(q, "max-length", "max-length-bytes", "message-ttl") {
		c.find("queue.failed", q.Object(), "see why they failed (rehop failed ls), fix the cause, and replay or discard them", "it has %d messages", n)
	}
}

// overdue is how long after its time a message may still be in a delay queue.
const overdue = time.Minute

// stalled finds messages that should have left their queue.
func (c *checkup) stalled(ctx context.Context) error {
	dying := maps.Clone(c.chart.queues)
	maps.DeleteFunc(dying, func(_ string, q apiQueue) bool { return q.Dying == 0 })
	if len(dying) > 0 {
		if err := rabbit.Pause(ctx, c.options.Watch); err != nil {
			return err
		}
		later, err := c.vitals(ctx)
		if err != nil {
			return err
		}
		for _, q := range dying {
			if now := later[q.Name].Dying; now >= q.Dying {
				c.find("queue.stalled", topology.Object{Kind: "queue", Name: q.Name},
					"check that the queue to which they go exists and has room; if so, give this queue a new leader, for example by restarting the node of its leader",
					"%d dead letters have not moved for %v (messages_dlx)", now, c.options.Watch)
			}
		}
	}
	for _, q := range c.chart.live.Queues {
		if !layouts.IsWaitQueue(q.Name) || c.chart.queues[q.Name].Ready == 0 {
			continue
		}
		first, err := c.admin.peek(ctx, place{layout: c.admin.layouts.usual, source: q.Name}, 1, Filter{})
		switch {
		case errors.Is(err, ErrNoQueue) || err == nil && len(first) == 0:
			continue
		case err != nil:
			return err
		}
		if due := first[0].Due; !due.IsZero() && time.Since(due) > overdue {
			c.find("queue.stalled", q.Object(), "give this queue a new leader, for example by restarting the node of its leader", "its first message should have returned %v ago", time.Since(due).Round(time.Second))
		}
	}
	return nil
}
