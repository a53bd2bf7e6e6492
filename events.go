package rehop

import (
	"context"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

// events calls the client's hooks for the events of a subscription to a queue. Those without a hook are
// nil, and cost nothing.
func (c *Client) events(s *Subscription, queue string) consume.Events {
	e := consume.Events{
		Consumer: func(up bool, err error) {
			notify(c.hooks.consumer, ConsumerEvent{Queue: queue, Up: up, Err: publicError(err)})
		},
		Stuck: func(stuck consume.Stuck) {
			notify(c.hooks.stuck, StuckHandler{Queue: queue, MessageID: stuck.MessageID, Messages: stuck.Messages, For: stuck.For, Replaced: stuck.Replaced, Returned: stuck.Returned})
		},
		Pause: func(paused bool, err error) {
			notify(c.hooks.pause, PauseEvent{Queue: queue, Paused: paused, Err: err})
		},
		Ended: func() {
			if c.forget(s, queue) {
				notify(c.hooks.consumer, ConsumerEvent{Queue: queue, Ended: true})
			}
		},
	}
	if len(c.hooks.held) > 0 {
		e.Held = func(held consume.Held) {
			notify(c.hooks.held, HeldEvent{Queue: queue, Owner: held.Owns, Messages: held.Messages, Keys: held.Keys, Blocked: held.Blocked, Oldest: held.Oldest, Stalled: held.Stalled})
		}
	}
	if len(c.hooks.handleStart) > 0 {
		e.HandleStart = func(ctx context.Context, view any) context.Context {
			for _, on := range c.hooks.handleStart {
				if with := on(ctx, view.(*Delivery)); with != nil {
					ctx = with
				}
			}
			return ctx
		}
	}
	if len(c.hooks.handleEnd) > 0 {
		e.HandleEnd = func(ctx context.Context, view any, took time.Duration, err error) {
			for _, on := range c.hooks.handleEnd {
				on(ctx, view.(*Delivery), took, err)
			}
		}
	}
	if len(c.hooks.move) > 0 {
		e.Move = func(ctx context.Context, view any, r consume.Result, headers map[string]any) {
			for _, on := range c.hooks.move {
				on(ctx, view.(*Delivery), publicResult(r), headers)
			}
		}
	}
	if len(c.hooks.result) > 0 {
		e.Result = func(ctx context.Context, view any, r consume.Result) {
			for _, on := range c.hooks.result {
				on(ctx, view.(*Delivery), publicResult(r))
			}
		}
	}
	return e
}

func publicResult(r consume.Result) Result {
	return Result{Outcome: Outcome(r.Outcome), Err: r.Err, Kind: Kind(r.Kind), Took: r.Took, Delay: r.Delay}
}
