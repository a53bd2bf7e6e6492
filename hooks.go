package rehop

import (
	"context"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// Hooks are functions that a client calls when something happens: to log, measure, trace, or add
// headers to messages that are moved. All are optional; set those that you need and put the struct into [Config.Hooks].
// Where there are several, they are called in the order of Config.Hooks.
//
// Hooks are called from the goroutines that do the work, often from several at once. They must be
// quick and safe for concurrent use: the work waits until they return. A hook cannot close the client,
// nor stop the subscription that calls it, because that would wait for the hook to return: there
// [Client.Close], [Subscription.Stop] and [Subscription.Drain] do nothing and return an error. The
// exceptions are named below. A client without hooks allocates nothing for them.
type Hooks struct {
	// OnOpen is called by [Open] before the client connects, on the goroutine of the caller. It
	// receives the client's settings with their defaults. URL and URLs have no passwords.
	OnOpen func(Config)

	// OnState is called when a connection changes its state, and when a connection that is RECOVERING
	// has a new reason. The calls for one connection come one after the other, in the order of the
	// changes. It cannot close the client, but it can stop a subscription.
	OnState func(StateChange)

	// OnPublishStart is called before a message is sent, on the goroutine that publishes. The message
	// has its ID. It can change the message: Headers is a copy, which may be nil. The context that it
	// returns is passed to OnPublishEnd; derive it from ctx.
	OnPublishStart func(ctx context.Context, m *Message) context.Context

	// OnPublishEnd is called once for each message, with the context of OnPublishStart, what Publish
	// returns for the message, and how long that took. [Client.Publish] calls it on the goroutine of
	// its caller; there, and outside of handlers, it can close the client. [Client.PublishBatch] and
	// [Client.PublishEach] call it from several goroutines at once.
	OnPublishEnd func(ctx context.Context, m *Message, took time.Duration, err error)

	// OnHandleStart is called before each run of a handler, on the goroutine of the handler, also for
	// immediate retries and for the probes after [Unavailable]. The handler gets the context that it
	// returns; derive it from ctx. Time that it takes counts towards [Subscriber.Timeout]. With
	// [Subscriber.Batch] it is called for each message of a batch, with a context of the message; the
	// handler gets the context of the batch, without what hooks have added.
	OnHandleStart func(ctx context.Context, d *Delivery) context.Context

	// OnHandleEnd is called after each run of a handler, on the goroutine of the handler, with the
	// context of OnHandleStart. A panic of the handler is an error here, and if [Subscriber.Classify] is
	// set, the error is the one that it returned. A handler that was replaced because it ignored its
	// context calls it when it returns, which is after OnResult. With [Subscriber.Batch] it is called for
	// each message of a batch, with the error of this message and the time that the batch took.
	OnHandleEnd func(ctx context.Context, d *Delivery, took time.Duration, err error)

	// OnMove is called before a message is published to a delay queue, to the failed queue, or to the
	// end of its own queue. Result is what will happen to it. What OnMove writes into headers goes with
	// the message and is in Delivery.Headers at the next delivery, or, if the name begins with
	// [HookPrefix], in [Delivery.HookHeader], until it is overwritten. Other names that begin with
	// "rehop-" are dropped. All of it is dropped if the message would become too large. OnMove is not
	// called where a layout has the broker itself move failed messages. The context is that of
	// OnHandleStart, or one without a handler's values if no handler was run.
	OnMove func(ctx context.Context, d *Delivery, r Result, headers map[string]any)

	// OnResult is called once for each delivery when it is settled, also if no handler was run for it.
	// OutcomeDone means that the ack has been sent, which is a few milliseconds after the handler has
	// returned if others can be acked with it. A copy in a delay or failed queue has been confirmed
	// before. If the connection is lost at that moment, the broker can still deliver the message again:
	// acks are not confirmed. The calls for acked messages come from the goroutine that sends the acks:
	// a hook that blocks delays them.
	OnResult func(ctx context.Context, d *Delivery, r Result)

	// OnConsumer is called when a subscription starts or stops receiving messages, and when the
	// client's last subscription to a queue has ended. The calls for one subscription come one after
	// the other, from its own goroutine.
	OnConsumer func(ConsumerEvent)

	// OnStuck is called for a handler that ignores its canceled context, [Subscriber.StuckAfter] after
	// its timeout and then again each time that this duration has passed, and once more when an
	// abandoned handler returns.
	OnStuck func(StuckHandler)

	// OnHeld is called when what waits has changed in a subscription with [Subscriber.OrderBy], at most once a second, and every
	// 10 seconds while something waits. Only the process that handles the messages of a queue reports what waits, and once
	// more, with nothing, when it does not handle them any more.
	OnHeld func(HeldEvent)

	// OnPause is called when a subscription pauses because its handler returned [Unavailable], and when
	// it resumes or ends.
	OnPause func(PauseEvent)
}

// State is the state of a client's connections.
type State string

// The states of a client.
const (
	StateOpen       State = "OPEN"       // connected
	StateBlocked    State = "BLOCKED"    // the broker accepts no messages: memory or disk alarm
	StateRecovering State = "RECOVERING" // not connected, reconnecting
	StateClosed     State = "CLOSED"     // closed by Close
)

func publicState(s rabbit.State) State {
	return [...]State{rabbit.Recovering: StateRecovering, rabbit.Open: StateOpen, rabbit.Blocked: StateBlocked, rabbit.Closed: StateClosed}[s]
}

// StateChange is a change of one of a client's connections.
type StateChange struct {
	Connection string // "publish" or "consume"
	State      State
	Address    string // host and port of the broker, when it is open or blocked
	Err        error  // why, when it is not open
}

// Result is what happened to a delivery.
type Result struct {
	Outcome Outcome
	Err     error         // what the handler returned
	Kind    Kind          // OutcomeRetry and OutcomeFailed: why the message failed
	Took    time.Duration // how long the handler ran
	Delay   time.Duration // OutcomeRetry and OutcomePostponed: how long the message waits
}

// Kind is why a message failed. It is in Result, in metrics, in the header rehop-error-kind, and in
// admin.Message.
type Kind string

// The kinds of failure. Only package admin reports the last two, of messages in failed queues.
const (
	KindError     Kind = envelope.KindError     // the handler returned an error
	KindPermanent Kind = envelope.KindPermanent // the handler returned Permanent, or a layout refused the message
	KindDecode    Kind = envelope.KindDecode    // the body could not be decoded
	KindTimeout   Kind = envelope.KindTimeout   // the handler, or what it waited for, did not end in time
	KindPanic     Kind = envelope.KindPanic     // the handler panicked or called runtime.Goexit
	KindCrash     Kind = envelope.KindCrash     // its consumers died or lost their connection, CrashLimit times
	KindDead      Kind = envelope.KindDead      // the broker dead-lettered it: rejected, expired, maxlen, delivery_limit
	KindUnrouted  Kind = envelope.KindUnrouted  // no queue was bound for it
)

// Outcome is what happened to a delivery.
type Outcome string

// The outcomes of a delivery.
const (
	OutcomeDone      Outcome = "done"      // handled, acked
	OutcomeRetry     Outcome = "retry"     // waits for its next attempt
	OutcomeFailed    Outcome = "failed"    // is in the failed queue
	OutcomeDiscarded Outcome = "discarded" // acked because the handler returned Discard
	OutcomePostponed Outcome = "postponed" // waits because the handler returned Postpone, no attempt used
	OutcomeReturned  Outcome = "returned"  // requeued, no attempt used
	OutcomeLost      Outcome = "lost"      // its session ended first: the broker delivers it again
)

// HookPrefix begins the names of headers that hooks write for themselves and handlers do not see. See
// [Hooks].OnMove and [Delivery.HookHeader].
const HookPrefix = envelope.HookPrefix

// ConsumerEvent is a subscription that has started or stopped receiving messages, or the end of the
// last one to a queue.
type ConsumerEvent struct {
	Queue string
	Up    bool  // it receives
	Err   error // why not; a *TopologyError if the broker refused
	// Ended: the client has no subscription to the queue left, because the last one was stopped or
	// drained. Up is false then, and Err nil.
	Ended bool
}

// StuckHandler is a handler that still runs although its time is up and its context canceled.
type StuckHandler struct {
	Queue     string
	MessageID string        // of a batch, the id of its first message
	Messages  int           // how many messages it handles: more than 1 only with Subscriber.Batch
	For       time.Duration // since it began
	Replaced  bool          // another worker has taken its place
	Returned  bool          // it has returned after all
}

// PauseEvent is a subscription that pauses because its handler returned [Unavailable], or resumes.
type PauseEvent struct {
	Queue  string
	Paused bool
	Err    error
}

// HeldEvent is what waits because messages are handled in order by key.
type HeldEvent struct {
	Queue    string
	Owner    bool      // this process handles the messages of the queue
	Messages int       // that wait in the held queue
	Keys     int       // of these messages, without those that have none
	Blocked  int       // keys that wait until a message is replayed or skipped
	Oldest   time.Time // when the first one of the messages that wait failed first; zero if none has failed
	// Stalled: MaxHeld messages wait, and all of Prefetch, so that no message is handled until one of them is due.
	Stalled bool
}

// hooks are the functions of all Hooks of a client, by event.
type hooks struct {
	open         []func(Config)
	state        []func(StateChange)
	publishStart []func(context.Context, *Message) context.Context
	publishEnd   []func(context.Context, *Message, time.Duration, error)
	handleStart  []func(context.Context, *Delivery) context.Context
	handleEnd    []func(context.Context, *Delivery, time.Duration, error)
	move         []func(context.Context, *Delivery, Result, map[string]any)
	result       []func(context.Context, *Delivery, Result)
	consumer     []func(ConsumerEvent)
	stuck        []func(StuckHandler)
	pause        []func(PauseEvent)
	held         []func(HeldEvent)
}

func sortHooks(all []Hooks) hooks {
	var h hooks
	for _, on := range all {
		keep(&h.open, on.OnOpen, on.OnOpen != nil)
		keep(&h.state, on.OnState, on.OnState != nil)
		keep(&h.publishStart, on.OnPublishStart, on.OnPublishStart != nil)
		keep(&h.publishEnd, on.OnPublishEnd, on.OnPublishEnd != nil)
		keep(&h.handleStart, on.OnHandleStart, on.OnHandleStart != nil)
		keep(&h.handleEnd, on.OnHandleEnd, on.OnHandleEnd != nil)
		keep(&h.move, on.OnMove, on.OnMove != nil)
		keep(&h.result, on.OnResult, on.OnResult != nil)
		keep(&h.consumer, on.OnConsumer, on.OnConsumer != nil)
		keep(&h.stuck, on.OnStuck, on.OnStuck != nil)
		keep(&h.pause, on.OnPause, on.OnPause != nil)
		keep(&h.held, on.OnHeld, on.OnHeld != nil)
	}
	return h
}

func keep[F any](list *[]F, call F, set bool) {
	if set {
		*list = append(*list, call)
	}
}

// notify calls each function with an event.
func notify[E any](list []func(E), event E) {
	for _, call := range list {
		call(event)
	}
}
