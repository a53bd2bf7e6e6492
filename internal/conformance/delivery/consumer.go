package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// Consumer subscribes to queues of a script and records what its handlers see.
type Consumer struct {
	Script   Script
	Recorder Recorder
	// Client is its name in the history.
	Client      string
	Concurrency int
	Prefetch    int
	CrashLimit  int
	// Work is how long a handler takes. Default: no time.
	Work time.Duration
}

// Hooks record what happens to the connections and subscriptions of its client. They go into the
// client's Config.
func (c Consumer) Hooks() []rehop.Hooks { return []rehop.Hooks{newHook(c.Recorder, c.Client).hooks()} }

// Subscribe begins to handle the messages of one queue.
func (c Consumer) Subscribe(ctx context.Context, client *rehop.Client, queue string) (*rehop.Subscription, error) {
	s := c.Script.subscription(queue)
	s.Concurrency, s.Prefetch, s.CrashLimit = c.Concurrency, c.Prefetch, c.CrashLimit
	s.Handler = rehop.HandlerFunc(c.handle)
	return client.Subscribe(ctx, s)
}

func (c Consumer) handle(ctx context.Context, d *rehop.Delivery) error {
	start := Event{At: Now(), Kind: Start, ID: d.ID, Queue: d.Queue, Number: d.Attempt, Client: c.Client, Again: d.Redelivered,
		Body: c.Script.digest(d.Body), Meta: digestMeta(d.Exchange, d.Key, d.ContentType, d.CorrelationID, d.Type, d.Headers)}
	c.Recorder.Record(start)
	if err := c.toil(ctx); err != nil {
		c.Recorder.Record(Event{Kind: Canceled, ID: d.ID, Queue: d.Queue, Number: d.Attempt, Client: c.Client})
		return err
	}
	delay, err := c.Script.Answer(d.Queue, d.ID, d.Attempt)
	end := Event{At: Now(), Kind: Handled, ID: d.ID, Queue: d.Queue, Number: d.Attempt, Client: c.Client}
	if err != nil {
		end.Kind, end.Delay = Failed, delay
	}
	c.Recorder.Record(end)
	return err
}

// toil takes the time that a handler is to take.
func (c Consumer) toil(ctx context.Context) error {
	if c.Work == 0 {
		return nil
	}
	timer := time.NewTimer(c.Work)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hook records the events of a client.
type hook struct {
	recorder Recorder
	client   string

	mu sync.Mutex
	up map[string]bool // by connection
}

func newHook(recorder Recorder, client string) *hook {
	return &hook{recorder: recorder, client: client, up: make(map[string]bool)}
}

func (h *hook) hooks() rehop.Hooks {
	return rehop.Hooks{OnState: h.OnState, OnConsumer: h.OnConsumer, OnResult: h.OnResult}
}

func (h *hook) OnState(s rehop.StateChange) {
	e := Event{Client: h.client, Link: s.Connection}
	if s.Err != nil {
		e.Comment = s.Err.Error()
	}
	h.mu.Lock()
	was := h.up[s.Connection]
	h.up[s.Connection] = s.State == rehop.StateOpen || s.State == rehop.StateBlocked
	h.mu.Unlock()
	switch {
	case s.State == rehop.StateBlocked:
		e.Kind = Blocked
	case s.State == rehop.StateOpen:
		e.Kind = Connected
	case s.State == rehop.StateRecovering && was: // others are tries that failed
		e.Kind = Lost
	default:
		return
	}
	h.recorder.Record(e)
}

func (h *hook) OnConsumer(c rehop.ConsumerEvent) {
	if c.Ended {
		return
	}
	e := Event{Kind: Receiving, Client: h.client, Queue: c.Queue}
	if !c.Up {
		e.Kind = Ceased
	}
	if c.Err != nil {
		e.Comment = c.Err.Error()
	}
	h.recorder.Record(e)
}

func (h *hook) OnResult(_ context.Context, d *rehop.Delivery, r rehop.Result) {
	if r.Outcome == rehop.OutcomeFailed {
		h.recorder.Record(Event{Kind: Parked, Client: h.client, Queue: d.Queue, ID: d.ID, Number: d.Attempt, Comment: string(r.Kind)})
	}
}
