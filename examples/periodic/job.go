// Package periodic publishes a message once per period, however many processes run it. It needs nothing but
// a delayed message and an inbox.
//
// A tick is a message for a queue of the job, delayed until the period begins. Whoever handles it publishes the next
// tick, and then the message of the period. The id of a tick is made of the time for which it is, and an inbox handles
// each id once. So it does no harm that a tick is published more than once: by each process when it starts, or again
// after a crash.
package periodic

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/inbox"
)

// Job publishes a message in each period. All processes start it with the same settings.
type Job struct {
	// Queue is a queue for the ticks of this job alone.
	Queue string
	// Period is the time between two ticks. They are at its multiples, by UTC: with 24 * time.Hour at midnight.
	Period time.Duration
	Client *rehop.Client
	// Inbox has the database that all processes share.
	Inbox inbox.Inbox
	// Publish publishes the message of the period that begins at due. It may be called again for the same period, after a crash
	// or an error, so the id of the message must be made of due.
	Publish func(ctx context.Context, due time.Time) error
}

// Start begins to handle ticks, and publishes the next one.
func (j Job) Start(ctx context.Context) (*rehop.Subscription, error) {
	sub, err := j.Client.Subscribe(ctx, rehop.Subscriber{
		Queue:      j.Queue,
		Retry:      rehop.Exponential(time.Second, 2, time.Minute, 10),
		Middleware: []rehop.Middleware{j.Inbox.Middleware(j.Queue)},
		Handler:    rehop.HandlerFunc(j.handle),
	})
	if err != nil {
		return nil, err
	}
	return sub, j.publishTick(ctx, time.Now())
}

func (j Job) handle(ctx context.Context, d *rehop.Delivery) error {
	due, err := time.Parse(time.RFC3339Nano, string(d.Body))
	if err != nil {
		return rehop.Permanent(err)
	}
	// The next tick comes first: the job continues although this period fails for good.
	if err := j.publishTick(ctx, due); err != nil {
		return err
	}
	return j.Publish(ctx, due)
}

// publishTick publishes the tick of the first period after the given time that is not over. After an outage, the missed ones
// are left out.
func (j Job) publishTick(ctx context.Context, after time.Time) error {
	if now := time.Now(); now.After(after) {
		after = now
	}
	due := after.UTC().Truncate(j.Period).Add(j.Period)
	text := due.Format(time.RFC3339Nano)
	return j.Client.Publish(ctx, rehop.Message{ID: fmt.Sprint(j.Queue, " ", text), Key: j.Queue, At: due, Body: []byte(text)})
}
