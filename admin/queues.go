package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// Queue is a queue that rehop subscriptions consume.
type Queue struct {
	Name      string
	Type      string // quorum or classic
	Ready     int    // waiting to be delivered
	Unacked   int    // delivered, not yet answered for
	Consumers int
	// Waiting is how many messages wait for their next attempt in this queue. It is counted only by
	// QueuesWithWaiting; else -1.
	Waiting int
	// Failed is how many messages rest in its failed queue, which in some layouts all queues share.
	Failed int
	// Migrating: the queue is being replaced by one with other arguments, and may not be there for a while.
	Migrating bool
	// Moving is how many messages are kept aside for it meanwhile.
	Moving int
}

// Overview is what rehop has on a broker.
type Overview struct {
	Queues []Queue
	// Steps and levels in which messages wait, with how many.
	Waits []Wait
	// Orphans is how many messages lost their queue while they waited.
	Orphans int
	// Unrouted is how many messages found no queue when they were published.
	Unrouted int
	// Recovered are the queues that a repair of the embedded broker has made for messages whose queue is lost.
	Recovered []Wait
}

// Wait is a queue in which messages wait, or were recovered.
type Wait struct {
	Name     string
	Messages int
}

type apiQueue struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Ready     int    `json:"messages_ready"`
	Unacked   int    `json:"messages_unacknowledged"`
	Delayed   int    `json:"messages_delayed"` // of a quorum queue of RabbitMQ 4.3
	Consumers int    `json:"consumers"`
}

// messages is how many messages the queue holds.
func (q apiQueue) messages() int { return q.Ready + q.Unacked + q.Delayed }

type apiBinding struct {
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"`
}

// Queues lists rehop's queues, by name. It needs the management API, whose figures are some seconds
// old.
func (a *Admin) Queues(ctx context.Context) (Overview, error) {
	var queues []apiQueue
	if err := a.management.get(ctx, "/api/queues/%s?columns=name,type,messages_ready,messages_unacknowledged,messages_delayed,consumers", &queues); err != nil {
		return Overview{}, fmt.Errorf("list queues: %w", err)
	}
	var bindings []apiRoute
	if err := a.management.get(ctx, "/api/exchanges/%s/"+layouts.ReturnExchange+"/bindings/source", &bindings); err != nil {
		return Overview{}, fmt.Errorf("list queues: %w", err)
	}
	// The way back to it is what makes a queue rehop's.
	ours := make(map[string]bool)
	for _, b := range bindings {
		if b.DestinationType == "queue" {
			ours[b.Destination] = true
		} else if b.Destination == layouts.MovingQueue(b.Key) {
			ours[b.Key] = true
		}
	}
	byName := make(map[string]apiQueue)
	for _, q := range queues {
		byName[q.Name] = q
	}
	for name := range ours {
		if _, exists := byName[name]; !exists { // it is about to be declared again
			queues = append(queues, apiQueue{Name: name})
		}
	}
	recognised := a.layouts.recognise(ours, func(queue string) bool {
		_, there := byName[queue]
		return there
	})
	var o Overview
	for _, q := range queues {
		of, consumed := recognised[q.Name]
		switch {
		case q.Name == layouts.OrphansQueue:
			o.Orphans = q.messages()
		case q.Name == layouts.UnroutedQueue:
			o.Unrouted = q.messages()
		case layouts.IsRecoveredQueue(q.Name):
			o.Recovered = append(o.Recovered, Wait{Name: q.Name, Messages: q.messages()})
		case layouts.IsWaitQueue(q.Name), layouts.IsLandingQueue(q.Name) && ours[q.Name]:
			o.Waits = append(o.Waits, Wait{Name: q.Name, Messages: q.messages()})
		case consumed:
			failed := byName[of.FailedQueue(q.Name)]
			moving, migrating := byName[layouts.MovingQueue(q.Name)]
			o.Queues = append(o.Queues, Queue{Name: q.Name, Type: q.Type, Ready: q.Ready, Unacked: q.Unacked,
				Consumers: q.Consumers, Waiting: -1, Failed: failed.messages(),
				Migrating: migrating, Moving: moving.messages()})
		}
	}
	slices.SortFunc(o.Queues, func(x, y Queue) int { return strings.Compare(x.Name, y.Name) })
	for _, some := range [][]Wait{o.Waits, o.Recovered} {
		slices.SortFunc(some, func(x, y Wait) int { return strings.Compare(x.Name, y.Name) })
	}
	return o, nil
}

// QueuesWithWaiting is Queues with the number of waiting messages of each queue. For that it takes
// up to limit messages of each wait queue in hand and puts them back, which can make those late by
// as long as it takes, never early.
func (a *Admin) QueuesWithWaiting(ctx context.Context, limit int) (Overview, error) {
	o, err := a.Queues(ctx)
	if err != nil {
		return o, err
	}
	counts := make(map[string]int)
	for _, w := range o.Waits {
		messages, err := a.peek(ctx, place{layout: a.layouts.usual, source: w.Name}, limit, Filter{})
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

// Queue looks at one queue over AMQP, without the management API: Unacked is then -1.
func (a *Admin) Queue(ctx context.Context, name string) (Queue, error) {
	moving, err := a.read.Inspect(ctx, layouts.MovingQueue(name))
	migrating := err == nil
	if err != nil && !errors.Is(queueError(err), ErrNoQueue) {
		return Queue{}, err
	}
	depth, err := a.read.Inspect(ctx, name)
	if err = queueError(err); err != nil && !(migrating && errors.Is(err, ErrNoQueue)) {
		return Queue{}, err
	}
	var failed rabbit.Depth
	if !layouts.IsRecoveredQueue(name) { // which has no failed queue
		if failed, err = a.read.Inspect(ctx, a.layouts.of(name).FailedQueue(name)); err != nil {
			return Queue{}, queueError(err)
		}
	}
	return Queue{Name: name, Ready: depth.Messages, Unacked: -1, Consumers: depth.Consumers, Waiting: -1, Failed: failed.Messages,
		Migrating: migrating, Moving: moving.Messages}, nil
}
