package admin

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"strconv"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// contents checks how many messages the queues hold.
func (c *checkup) contents() {
	for _, q := range c.chart.live.Queues {
		n := q.Messages()
		if q.Unacked >= c.options.MaxUnacked {
			c.find("queue.unacked", q.Object(), "lower the prefetch of its consumers, check whether they are stuck, and have them ack what they have handled", "%d messages are unacked", q.Unacked)
		}
		c.expiring(q, n)
		switch {
		case c.chart.roles[q.Name] == roleMoving:
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
