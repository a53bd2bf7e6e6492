package kit

import (
	"context"

	"github.com/rehop/rehop"
)

// Handled is one call of OnResult.
type Handled struct {
	Ctx      context.Context
	Delivery *rehop.Delivery
	rehop.Result
}

// Recorder keeps everything that its hooks receive.
type Recorder struct {
	Results   chan Handled
	States    chan rehop.StateChange
	Consumers chan rehop.ConsumerEvent
	Stuck     chan rehop.StuckHandler
	Pauses    chan rehop.PauseEvent
}

// NewRecorder makes a Recorder with more room than any test fills.
func NewRecorder() *Recorder {
	const room = 10_000
	return &Recorder{
		Results: make(chan Handled, room), States: make(chan rehop.StateChange, room), Consumers: make(chan rehop.ConsumerEvent, room),
		Stuck: make(chan rehop.StuckHandler, room), Pauses: make(chan rehop.PauseEvent, room),
	}
}

// Hooks are the recorder's hooks, as Config takes them.
func (r *Recorder) Hooks() []rehop.Hooks {
	return []rehop.Hooks{{OnResult: r.OnResult, OnState: r.OnState, OnConsumer: r.OnConsumer, OnStuck: r.OnStuck, OnPause: r.OnPause}}
}

// OnResult records a result.
func (r *Recorder) OnResult(ctx context.Context, d *rehop.Delivery, result rehop.Result) {
	r.Results <- Handled{ctx, d, result}
}

// OnState records a change of a connection's state.
func (r *Recorder) OnState(s rehop.StateChange) { r.States <- s }

// OnConsumer records that a subscription begins or ceases to receive.
func (r *Recorder) OnConsumer(e rehop.ConsumerEvent) {
	if !e.Ended {
		r.Consumers <- e
	}
}

// OnStuck records that a handler does not return, or does so after all.
func (r *Recorder) OnStuck(s rehop.StuckHandler) { r.Stuck <- s }

// OnPause records that a subscription pauses or resumes.
func (r *Recorder) OnPause(e rehop.PauseEvent) { r.Pauses <- e }
