package admin

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// contents examines how many messages are where.
func (c *checkup) contents() {
	roles := c.roles()
	for _, q := range c.chart.live.Queues {
		n := q.Messages()
		c.held(q)
		c.expiring(q, n)
		switch {
		case roles[q.Name] == moving:
			c.find("queue.migration", topology.Object{Kind: "queue", Name: migratedQueue(c.chart.live, q.Name)}, "run the migration again (rehop topology migrate): it continues where it stopped", "queue %q keeps %d messages of it", q.Name, n)
		case roles[q.Name] == recovered:
			c.recovered(q, n)
		case n == 0:
		case q.Name == layouts.OrphansQueue:
			c.find("queue.orphans", q.Object(), "declare the queues that they belong to, and replay them (rehop failed replay)", "%d messages have lost their queue", n)
		case q.Name == layouts.UnroutedQueue:
			c.find("queue.unrouted", q.Object(), "bind a queue for their keys, and replay them (rehop failed replay)", "%d messages were for nobody", n)
		case roles[q.Name] == resting:
			c.failed(q, n)
		case roles[q.Name] == waiting:
		case q.Consumers == 0:
			c.find("queue.unconsumed", q.Object(), "start its consumers, or unbind and delete it: "+c.ctl("rabbitmqctl delete_queue -p %q "+strconv.Quote(q.Name), "DELETE /api/queues/%s/"+url.PathEscape(q.Name)), "%d messages wait, and nobody consumes it", n)
		}
	}
}

// recovered explains a queue that a repair of an embedded broker has made.
func (c *checkup) recovered(q topology.LiveQueue, n int) {
	remove := c.ctl("rabbitmqctl delete_queue -p %q "+strconv.Quote(q.Name), "DELETE /api/queues/%s/"+url.PathEscape(q.Name))
	if n == 0 {
		c.findAs(Info, "queue.recovered", q.Object(), remove, "it was made by rehop broker repair, and its messages are gone")
		return
	}
	c.find("queue.recovered", q.Object(), "look at them (rehop failed ls "+q.Name+"), declare and bind the queue that they belong to, and run rehop failed replay "+q.Name+
		": one that was waiting or had failed returns to its queue, others are published with their exchange and key again, to every queue that is bound for it; then delete it: "+remove,
		"rehop broker repair has put %d messages there whose own queue is lost", n)
}

// held finds queues of which consumers hold very many messages.
func (c *checkup) held(q topology.LiveQueue) {
	if q.Unacked >= c.options.MaxUnacked {
		c.find("queue.unacked", q.Object(), "lower the prefetch of its consumers, see whether they are stuck, and have them acknowledge what they have done", "%d messages are with consumers, and not acknowledged", q.Unacked)
	}
}

// expiring finds queues that are about to be deleted with their messages.
func (c *checkup) expiring(q topology.LiveQueue, n int) {
	limit, set := limitOf(q, "expires")
	if !set || n == 0 || q.Consumers > 0 {
		return
	}
	c.find("queue.expires", q.Object(), "start its consumers, or take x-expires (expires in a policy) off it; what expires is not dead-lettered",
		"it holds %d messages, nobody consumes it, and it is deleted when it was not used for %v", n, time.Duration(limit)*time.Millisecond)
}

// failed examines a queue in which messages rest.
func (c *checkup) failed(q topology.LiveQueue, n int) {
	_, length := q.Effective("max-length")
	_, bytes := q.Effective("max-length-bytes")
	_, expires := q.Effective("message-ttl")
	if n < c.options.MaxFailed || length || bytes || expires {
		return
	}
	c.find("queue.failed", q.Object(), "see why they failed (rehop failed ls), fix the cause, and replay or drop them", "it has %d messages", n)
}

// overdue is how long after its time a message may still be in a queue where it waited.
const overdue = time.Minute

// stalled finds messages that should have left a queue by themselves.
func (c *checkup) stalled(ctx context.Context) error {
	var dying []apiVitals
	for _, q := range c.chart.queues {
		if q.Dying > 0 {
			dying = append(dying, q)
		}
	}
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
					"see whether the queue that they go to is there and has room; if it is, give this queue a new leader, as by restarting the node that leads it",
					"%d dead letters have been standing still for %v (messages_dlx)", now, c.options.Watch)
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
			c.find("queue.stalled", q.Object(), "give this queue a new leader, as by restarting the node that leads it", "its first message should have returned %v ago", time.Since(due).Round(time.Second))
		}
	}
	return nil
}
