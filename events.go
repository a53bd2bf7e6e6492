package rehop

import (
	"context"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

// events calls the client's hooks for what happens to a subscription. What no hook asks for is nil,
// and costs nothing.
func (c *Client) events(s *Subscription) consume.Events {
	e := consume.Events{
		Consumer: func(up bool, err error) {
			event := ConsumerEvent{Queue: s.config.Queue, Up: up, Err: publicError(err)}
			tell(c.hooks.consumer, func(h ConsumerHook) { h.OnConsumer(event) })
		},
		Stuck: func(stuck consume.Stuck) {
			event := StuckHandler{Queue: s.config.Queue, MessageID: stuck.MessageID, For: stuck.For, Replaced: stuck.Replaced, Returned: stuck.Returned}
			tell(c.hooks.stuck, func(h StuckHook) { h.OnStuck(event) })
		},
		Pause: func(paused bool, err error) {
			event := PauseEvent{Queue: s.config.Queue, Paused: paused, Err: err}
			tell(c.hooks.pause, func(h PauseHook) { h.OnPause(event) })
		},
		Ended: func() {
			if c.forget(s) {
				tell(c.hooks.consumerEnd, func(h ConsumerEndHook) { h.OnConsumerEnd(s.config.Queue) })
			}
		},
	}
	if len(c.hooks.handleStart) > 0 {
		e.HandleStart = func(ctx context.Context, view any) context.Context {
			for _, h := range c.hooks.handleStart {
				ctx = h.OnHandleStart(ctx, view.(*Delivery))
			}
			return ctx
		}
	}
	if len(c.hooks.handleEnd) > 0 {
		e.HandleEnd = func(ctx context.Context, view any, took time.Duration, err error) {
			tell(c.hooks.handleEnd, func(h HandleEndHook) { h.OnHandleEnd(ctx, view.(*Delivery), took, err) })
		}
	}
	if len(c.hooks.move) > 0 {
		e.Move = func(ctx context.Context, view any, r consume.Result, headers map[string]any) {
			tell(c.hooks.move, func(h MoveHook) { h.OnMove(ctx, view.(*Delivery), publicResult(r), headers) })
		}
	}
	if len(c.hooks.handle) > 0 {
		e.Result = func(ctx context.Context, view any, r consume.Result) {
			tell(c.hooks.handle, func(h HandleHook) { h.OnHandled(ctx, view.(*Delivery), publicResult(r)) })
		}
	}
	return e
}

func publicResult(r consume.Result) Result {
	return Result{Outcome: Outcome(r.Outcome), Err: r.Err, Kind: r.Kind, Took: r.Took, Delay: r.Delay}
}
