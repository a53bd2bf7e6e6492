package rehop

import (
	"context"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// Hook is anything that implements one or more of the hook interfaces below. Hooks are called from
// the goroutines that do the work: they must be quick and safe for concurrent use, and cannot close the client or end the subscription
// that calls them. See [Client.Close].
type Hook any

// State is the state of a client's connections.
type State string

// The states of a client.
const (
	StateOpen       State = "OPEN"       // connected
	StateBlocked    State = "BLOCKED"    // the broker takes no messages: memory or disk alarm
	StateRecovering State = "RECOVERING" // not connected, trying
	StateClosed     State = "CLOSED"     // closed for good
)

func publicState(s rabbit.State) State {
	return [...]State{rabbit.Recovering: StateRecovering, rabbit.Open: StateOpen, rabbit.Blocked: StateBlocked, rabbit.Closed: StateClosed}[s]
}

// OpenHook is called by [Open] before the client connects, with the client's settings and their defaults.
type OpenHook interface{ OnOpen(Config) }

// StateChange tells that one of a client's connections has changed.
type StateChange struct {
	Connection string // "publish" or "consume"
	State      State
	Address    string // host and port of the broker, when it is open or blocked
	Err        error  // why, when it is not open
}

// StateHook is told when a connection changes, and when it is RECOVERING still, but for a new reason.
type StateHook interface{ OnState(StateChange) }

// PublishStartHook is called before a message is sent. It may add headers, and its context is handed
// to PublishHook.
type PublishStartHook interface {
	OnPublishStart(ctx context.Context, m *Message) context.Context
}

// PublishHook is told what became of a message.
type PublishHook interface {
	OnPublish(ctx context.Context, m *Message, took time.Duration, err error)
}

// HandleStartHook is called before each run of a handler, immediate retries and probes of an outage
// included; the handler gets its context.
type HandleStartHook interface {
	OnHandleStart(ctx context.Context, d *Delivery) context.Context
}

// HandleEndHook is called after each run of a handler, with the context of OnHandleStart. A panic is an
// error here.
type HandleEndHook interface {
	OnHandleEnd(ctx context.Context, d *Delivery, took time.Duration, err error)
}

// Result is what became of a delivery.
type Result struct {
	Outcome Outcome
	Err     error         // what the handler returned
	Kind    string        // for retries and failures: error, permanent, decode, timeout, panic, crash
	Took    time.Duration // how long the handler ran
	Delay   time.Duration // OutcomeRetry and OutcomePostponed: how long the message waits
}

// Outcome says what became of a delivery.
type Outcome string

// The outcomes of a delivery.
const (
	OutcomeDone      Outcome = "done"      // handled, acked
	OutcomeRetry     Outcome = "retry"     // waits for its next attempt
	OutcomeFailed    Outcome = "failed"    // rests in the failed queue
	OutcomeDiscarded Outcome = "discarded" // dropped because the handler said so
	OutcomePostponed Outcome = "postponed" // waits because the handler returned Postpone, no attempt used
	OutcomeReturned  Outcome = "returned"  // given back to the queue, no attempt burnt
	OutcomeLost      Outcome = "lost"      // its session ended first: the broker delivers it again
)

// HookPrefix begins the names of headers that hooks write for themselves: handlers do not see them. See [MoveHook] and
// [Delivery.HookHeader].
const HookPrefix = envelope.HookPrefix

// MoveHook is called before a delivery is sent on, to wait, to the failed queue or to the end of its queue, with what is to become of it.
// What it writes into headers goes with the message and is in Delivery.Headers next time, or, if the name begins with [HookPrefix], in
// [Delivery.HookHeader], until it is overwritten. Other names that begin with "rehop-" are left out, and all of it is if the message
// would be too large. Where a layout has the broker itself move what fails, the hook is not called.
type MoveHook interface {
	OnMove(ctx context.Context, d *Delivery, r Result, headers map[string]any)
}

// HandleHook is told once what became of a delivery, also of one that no handler was run for. OutcomeDone means that the ack has been sent,
// a few milliseconds after the handler has returned if others can be acked with it; what is moved, to wait or because it failed, is confirmed
// before. A connection that is lost at that moment can still have the broker deliver the message again: acks are not confirmed. The calls
// for what is acked come from the goroutine that sends the acks: a hook that waits holds them up.
type HandleHook interface {
	OnHandled(ctx context.Context, d *Delivery, r Result)
}

// ConsumerEvent tells that a subscription has begun or ceased to receive.
type ConsumerEvent struct {
	Queue string
	Up    bool
	Err   error // why not; a *TopologyError if the broker refused
}

// ConsumerHook is told when a subscription begins or ceases to receive.
type ConsumerHook interface{ OnConsumer(ConsumerEvent) }

// ConsumerEndHook is told when a client has no subscription to a queue any more, because the last one was stopped or drained.
type ConsumerEndHook interface{ OnConsumerEnd(queue string) }

// StuckHandler tells of a handler that runs on although its time is up and its context canceled.
type StuckHandler struct {
	Queue     string
	MessageID string
	For       time.Duration // since it began
	Replaced  bool          // another worker has taken its place
	Returned  bool          // it has returned after all
}

// StuckHook is told of handlers that ignore their context.
type StuckHook interface{ OnStuck(StuckHandler) }

// PauseEvent tells that a subscription pauses because its handler said [Unavailable], or goes on.
type PauseEvent struct {
	Queue  string
	Paused bool
	Err    error
}

// PauseHook is told when a subscription pauses or goes on.
type PauseHook interface{ OnPause(PauseEvent) }

// hooks are a client's hooks, sorted by what they want to know.
type hooks struct {
	open         []OpenHook
	state        []StateHook
	publishStart []PublishStartHook
	publish      []PublishHook
	handleStart  []HandleStartHook
	handleEnd    []HandleEndHook
	move         []MoveHook
	handle       []HandleHook
	consumer     []ConsumerHook
	consumerEnd  []ConsumerEndHook
	stuck        []StuckHook
	pause        []PauseHook
}

func sortHooks(all []Hook) hooks {
	var h hooks
	for _, hook := range all {
		keep(&h.open, hook)
		keep(&h.state, hook)
		keep(&h.publishStart, hook)
		keep(&h.publish, hook)
		keep(&h.handleStart, hook)
		keep(&h.handleEnd, hook)
		keep(&h.move, hook)
		keep(&h.handle, hook)
		keep(&h.consumer, hook)
		keep(&h.consumerEnd, hook)
		keep(&h.stuck, hook)
		keep(&h.pause, hook)
	}
	return h
}

func keep[T any](list *[]T, hook Hook) {
	if t, ok := hook.(T); ok {
		*list = append(*list, t)
	}
}

// tell calls each hook of a kind.
func tell[T any](list []T, call func(T)) {
	for _, hook := range list {
		call(hook)
	}
}
