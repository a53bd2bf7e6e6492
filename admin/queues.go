package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Queue is a queue that subscriptions of rehop consume.
type Queue struct {
	Name      string
	Type      string // quorum or classic; empty if it is not known
	Ready     int    // waiting to be delivered
	Unacked   int    // delivered and not yet acked; -1 if it is not known
	Consumers int
	// Waiting is how many messages of this queue wait for their next attempt. Only QueuesWithWaiting counts them; otherwise it is -1.
	Waiting int
	// Failed is how many messages are in the failed queue. In some layouts all queues share one.
	Failed int
	// Migrating: the queue is being replaced by one with other arguments. For some time it may not exist.
	Migrating bool
	// Kept is how many messages are kept in another queue during the migration.
	Kept int
	// In and Out are how many messages arrived and were acked per second, recently. They are 0 if the broker does not collect rates,
	// and -1 without the management API.
	In, Out float64
}

// Overview is what rehop has on a broker.
type Overview struct {
	Queues []Queue
	// DelayQueues are the queues in which messages wait for their next attempt.
	DelayQueues []QueueSize
	// Orphans is how many messages lost their queue while they waited.
	Orphans int
	// Unrouted is how many messages found no queue when they were published.
	Unrouted int
	// Recovered are the queues that a repair of the embedded broker has created for messages whose queue is lost.
	Recovered []QueueSize
}

// QueueSize is a queue with the number of its messages.
type QueueSize struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
}

// Queues lists rehop's queues, sorted by name. It needs the management API. How many messages are ready comes from the queues
// themselves; how many are unacked, and rates, come from the API, and are some seconds old.
func (a *Admin) Queues(ctx context.Context) (Overview, error) {
	var listed []apiQueue
	if err := a.management.get(ctx, "/api/queues/%s?columns=name,type,messages_ready,messages_unacknowledged,messages_delayed,consumers,"+
		"message_stats.publish_details.rate,message_stats.ack_details.rate", &listed); err != nil {
		return Overview{}, fmt.Errorf("list queues: %w", err)
	}
	var bindings []apiRoute
	if err := a.management.get(ctx, "/api/exchanges/%s/"+layouts.ReturnExchange+"/bindings/source", &bindings); err != nil {
		return Overview{}, fmt.Errorf("list queues: %w", err)
	}
	byName := make(map[string]topology.LiveQueue)
	for _, q := range listed {
		byName[q.Name] = q.live()
	}
	ours := make(map[string]bool) // a binding of the return exchange makes a queue rehop's
	for _, b := range bindings {
		if b.DestinationType == "queue" {
			ours[b.Destination] = true
		} else if b.Destination == layouts.MigratingQueue(b.Key) {
			ours[b.Key] = true
		}
	}
	recognised := a.layouts.recognise(ours, func(queue string) bool {
		_, exists := byName[queue]
		return exists
	})
	for name := range ours {
		if _, exists := byName[name]; !exists { // a migration is about to declare it again
			listed = append(listed, apiQueue{Name: name})
		}
	}
	shown := make(map[string]bool)
	for name, of := range recognised {
		shown[name], shown[of.FailedQueue(name)] = true, true
	}
	for name := range byName {
		if strings.HasPrefix(name, "rehop.") || layouts.IsLandingQueue(name) && ours[name] {
			shown[name] = true
		}
	}
	if err := a.updateCounts(ctx, byName, shown); err != nil {
		return Overview{}, fmt.Errorf("list queues: %w", err)
	}
	slices.SortFunc(listed, func(x, y apiQueue) int { return strings.Compare(x.Name, y.Name) })
	var o Overview
	for _, listed := range listed {
		q, exists := byName[listed.Name]
		if !exists {
			q = listed.live()
		}
		size := QueueSize{Name: q.Name, Messages: q.Messages()}
		of, consumed := recognised[q.Name]
		switch {
		case q.Name == layouts.OrphansQueue:
			o.Orphans = size.Messages
		case q.Name == layouts.UnroutedQueue:
			o.Unrouted = size.Messages
		case layouts.IsRecoveredQueue(q.Name):
			o.Recovered = append(o.Recovered, size)
		case layouts.IsWaitQueue(q.Name), layouts.IsLandingQueue(q.Name) && ours[q.Name]:
			o.DelayQueues = append(o.DelayQueues, size)
		case consumed:
			kept, migrating := byName[layouts.MigratingQueue(q.Name)]
			failed := byName[of.FailedQueue(q.Name)]
			if layouts.Partitioned(q.Name) != q.Name { // it is counted for the first partition
				failed = topology.LiveQueue{}
			}
			o.Queues = append(o.Queues, Queue{Name: q.Name, Type: q.Type, Ready: q.Ready, Unacked: q.Unacked, Consumers: q.Consumers,
				Waiting: -1, Failed: failed.Messages(), Migrating: migrating, Kept: kept.Messages(), In: listed.Stats.object.In.Rate, Out: listed.Stats.object.Out.Rate})
		}
	}
	return o, nil
}

// QueuesWithWaiting is Queues with the number of waiting messages of each queue. To count them, it reads up to limit messages of
// each delay queue and requeues them. This can delay their next attempt by the time that it takes; it is never early.
func (a *Admin) QueuesWithWaiting(ctx context.Context, limit int) (Overview, error) {
	o, err := a.Queues(ctx)
	if err != nil {
		return o, err
	}
	counts := make(map[string]int)
	for _, q := range o.DelayQueues {
		messages, err := a.peek(ctx, place{layout: a.layouts.usual, source: q.Name}, limit, Filter{})
		if err != nil {
			return o, err
		}
		for _, m := range messages {
			counts[m.Queue]++
		}
	}
	for i := range o.Queues {
		o.Queues[i].Waiting = counts[o.Queues[i].Name]
	}
	return o, nil
}

// Queue returns one queue. It uses only AMQP and needs no management API, so Type is empty, and Unacked, Waiting, In and Out are -1. If the
// queue or its failed queue does not exist, it returns ErrNoQueue.
func (a *Admin) Queue(ctx context.Context, name string) (Queue, error) {
	kept, migrating, err := existing(a.read.Inspect(ctx, layouts.MigratingQueue(name)))
	if err != nil {
		return Queue{}, err
	}
	depth, err := a.read.Inspect(ctx, name)
	if err != nil && !(migrating && isMissing(err)) {
		return Queue{}, queueError(err)
	}
	var failed rabbit.Depth
	if !layouts.IsRecoveredQueue(name) { // which has no failed queue
		if failed, err = a.read.Inspect(ctx, a.layouts.of(name).FailedQueue(name)); err != nil {
			return Queue{}, queueError(err)
		}
	}
	return Queue{Name: name, Ready: depth.Messages, Unacked: -1, Consumers: depth.Consumers, Waiting: -1, Failed: failed.Messages,
		Migrating: migrating, Kept: kept.Messages, In: -1, Out: -1}, nil
}
