package rehop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Subscriber has the settings of a subscription: what to consume, how, and what happens to failed
// messages. Queue and Handler, or Batch, are required.
type Subscriber struct {
	// The queue.

	// Queue is the queue's name. Several processes with the same queue compete for its messages. It must
	// not begin with amq. or rehop. and has at most 255 bytes.
	Queue string
	// QueueType is layout.Quorum or layout.Classic. Set it for a queue that exists with another type. A
	// quorum queue cannot be Exclusive or AutoDelete. Default: the layout's; for layout.Native that is
	// Quorum, and Classic for Exclusive, AutoDelete and MaxPriority.
	QueueType layout.QueueType
	// ExistingQueue uses a queue that another application declares, unchanged. It cannot be combined
	// with settings of the queue, except that AutoDelete and SingleActiveConsumer must be set for a queue that was
	// declared with them: rehop then never cancels its consumer while it runs. Its failed queue and the way back to it are declared anyway. If the
	// queue does not exist, Subscribe returns a *TopologyError. Default: false, rehop declares the queue.
	ExistingQueue bool
	// MessageTTL is how long a message may stay in the queue; then the broker moves it to the failed
	// queue. It is refused where the layout has no queue to which the broker could move it. At least
	// 1 ms, at most 10 years. Default: without limit.
	MessageTTL time.Duration
	// Expires deletes the queue, with its messages, after it was unused for this long. At least 1 ms, at
	// most 10 years. Default: never.
	Expires time.Duration
	// MaxLength is how many messages, and MaxBytes how many bytes, the queue can hold; see Overflow.
	// Default: without limit.
	MaxLength, MaxBytes int
	// Overflow is what happens when the queue is full: "reject-publish" (publishers get ErrRefused) or
	// "drop-head" (the oldest message goes to the failed queue, at most once: RabbitMQ dead-letters at
	// least once only with reject-publish; not in every layout). "reject-publish-dlx" is for classic
	// queues. Default: reject-publish for quorum queues, drop-head for classic ones.
	Overflow string
	// MaxPriority is the highest priority of messages; those of higher priority are delivered first. It
	// makes a classic queue unless QueueType is layout.Quorum. Quorum queues have priorities from
	// RabbitMQ 4.0 on: 4.0 to 4.2 know two, up to 4 and above; 4.3 has 0 to 31, and a message without a
	// priority counts as 4. Default: 0, no priorities.
	MaxPriority int
	// SingleActiveConsumer lets only one of the competing consumers receive at a time. Set it to keep
	// the order of messages with several processes. A retry changes the order, and so does a handler that
	// returns Unavailable for longer than a minute. Set it for an ExistingQueue that was declared so, too.
	// Default: false.
	SingleActiveConsumer bool
	// Exclusive makes a queue of this connection alone, which is deleted with it. AutoDelete makes one
	// that is deleted with its last consumer. Messages that are in the queue then are lost. Drain handles
	// those that were received; if it or Stop cannot, the error has the number of lost messages.
	// Default: false, the queue lasts.
	Exclusive, AutoDelete bool
	// QueueArgs are further queue arguments, by RabbitMQ's names. They override all others, and nil
	// removes one. Default: none.
	QueueArgs map[string]any
	// PolicyPriority has what a policy can set of the queue (dead-lettering, times, lengths, limits) set
	// by a policy of this priority instead of by arguments, so that it can be changed later. The policy
	// is in the plan of [Topology]: an operator applies that plan before the subscription begins, as a
	// client cannot set policies, nor see whether they are there. Default: 0, by arguments.
	PolicyPriority int

	// The exchange.

	// Exchange is what the queue is bound to. rehop declares it, durable, with an alternate exchange.
	// Default: none; messages are published to the queue by its name. Some layouts have one of their own.
	Exchange string
	// ExchangeType is topic, direct, fanout or headers. Default: the layout's; for layout.Native that is
	// topic.
	ExchangeType string
	// ExistingExchange uses an exchange that another application declares, unchanged: rehop only binds
	// the queue to it. If it does not exist, Subscribe returns a *TopologyError. Default: false.
	ExistingExchange bool
	// Keys are the binding keys. They need an exchange. Default: "#" for topic exchanges, "" for others.
	Keys []string

	// Handling.

	// Handler handles the messages; what it returns decides what happens to each.
	Handler Handler
	// Batch handles many messages with one call. Set either Handler or Batch.Handle. Default: none.
	Batch Batch
	// Middleware wraps the handler, the first one outermost. It cannot be combined with Batch: wrap the
	// function Batch.Handle instead. Default: none.
	Middleware []Middleware
	// Concurrency is how many messages, or batches, are handled at once. Raise it for handlers that
	// wait for others. If it is above 1, messages are handled in order only with OrderBy. Default: 1.
	Concurrency int
	// Rate is how many runs of the handler begin per second at the most, in this process. Set it for a
	// handler that calls something which limits calls. Retries count, also immediate ones, and so do
	// probes while the handler returns Unavailable. A message stays unacked while it waits, and Timeout
	// begins after the wait. Stop and Drain end the wait, and no attempt is used. At most 1,000,000.
	// Prefetch messages, with their immediate retries, must not have to wait for more than 10 minutes.
	// Default: 0, without limit.
	//
	// With a Batch, each call of Batch.Handle is one run, however many messages it handles: Rate limits
	// calls, not messages. At most Rate times Batch.Size messages are handled per second. A batch that
	// waits for the rate takes no further messages.
	Rate float64
	// Burst is how many runs may begin at once when none has begun for a while. It needs a Rate. At most
	// 1,000,000. Default: 1.
	Burst int
	// Classify decides by the error of a handler, and by the message, what happens to the message: a
	// policy in one place, for handlers that do not know rehop. It is called with the error that the
	// handler returned, after Middleware, or with one that describes its panic or runtime.Goexit. The
	// error that Classify returns takes the place of that one, also for [Hooks]: the same error, or
	// Permanent, RetryAfter, Postpone, Discard or Unavailable around it. Nil: the message is handled.
	//
	// Classify is a part of the handler's run and of its Timeout. A handler whose time is up has usually
	// returned context.DeadlineExceeded. If Classify panics, the message has failed with KindPanic. It is
	// not called for a handler that returned nil, that a stop has canceled (its message goes back to the
	// queue), or that was replaced because it was stuck (which is a failure with KindTimeout). It may be
	// called by several goroutines at once. Default: nil, the handler's error decides.
	//
	// With a Batch, Classify is called for each message that has an error: the one in a *BatchError, or
	// the error, panic or runtime.Goexit of the whole batch. It is called for one message after the other.
	Classify func(d *Delivery, err error) error
	// Timeout bounds one run of the handler, also for a batch: its context is canceled then. Default:
	// 5 minutes.
	//
	// RabbitMQ delivers a message again that is unacked for longer than its consumer_timeout, 30 minutes
	// unless set. For quorum queues of RabbitMQ 4.3 and later rehop asks for a longer one if handlers may
	// need it, those of prefetched messages included. Elsewhere keep Timeout, times Prefetch /
	// Concurrency, and with a Rate plus Prefetch / Rate seconds, at least 2 minutes below it: a handler
	// that returns Unavailable holds messages for that time. With a Batch, divide both by its Size.
	Timeout time.Duration
	// StuckAfter is how long after Timeout a handler that does not return is reported (Hooks.OnStuck),
	// counted as failed and replaced by another worker. As many as Concurrency are replaced; further
	// ones keep their place until they return. Default: 30 s.
	StuckAfter time.Duration
	// OrderBy returns the key of a message, for example the number of the order that it is about. Messages with the
	// same key are handled one at a time, in the order of the queue, while messages of other keys are handled at the
	// same time, up to Concurrency. A message that fails holds up those of its key only, until it is handled or has
	// failed for good. A message whose key is "" is ordered with no other.
	//
	// One of the processes that subscribe to the queue handles all of its messages. The others wait, and one of them
	// takes over when it is gone. What is repeated then need not be in order: see docs/ordering.md. The queue is a
	// quorum queue with a single active consumer, and what waits is in a second one, with the suffix .held. OrderBy
	// is called when a message comes from the queue, must be quick, and must always return the same key for a
	// message. If it panics, the message goes to the failed queue. It needs layout.Native and a queue that rehop declares, and cannot be combined with Batch,
	// MessageTTL, MaxPriority, ConsumerPriority, PolicyPriority, or drop-head. Default: nil, no order.
	OrderBy func(d *Delivery) string
	// Partitions is how many queues the messages are spread over, with OrderBy, so that several processes handle them: a power
	// of two, at most 64. Each partition is handled by one process, and the processes share them evenly. The queue is the first
	// partition, and the others are named after it. [Message.OrderKey] decides on the partition: messages with the same one are
	// in the same partition, those without one are in the first. So OrderBy must not return the same key for messages with
	// different order keys; OrderBy is usually [OrderKey]. Without an Exchange, publish to the exchange queue + ".split"; what is
	// published to the queue by its name is in the first partition. The number cannot be changed while the queue exists.
	// Concurrency and Rate are for all partitions of this process, Prefetch and MaxHeld for each. Default: 1.
	Partitions int
	// MaxHeld is how many messages may wait in the held queue of OrderBy. They are all in the memory of the process. When it is
	// reached, messages behind those that wait stay in the queue, and if these fill Prefetch, no other message is handled.
	// Messages that fail may exceed it by Prefetch. At most 50,000. Default: 1000.
	MaxHeld int
	// AfterFail is what happens to messages with the same key, with OrderBy, when a message has failed for good.
	// Default: Skip.
	AfterFail AfterFail
	// StopGrace is how long a stop waits for handlers that it has canceled, so that they can clean up,
	// for example roll a transaction back. After that their messages go back to the queue while they
	// still run. Default: 5 s.
	StopGrace time.Duration

	// Retries.

	// Layout is the set of queues for retries and failed messages. Set another one to share queues with
	// programs that do not use rehop. Default: layout.Native, with rehop's own queues.
	Layout layout.Layout
	// Retry is the schedule of a message that fails. Default: the layout's; for layout.Native that is
	// Steps(10s, 100s, 1h, 2h, 10h).
	Retry Schedule
	// CrashLimit is how often a message may be delivered without an answer (the process died or lost its
	// connection) before it goes to the failed queue. From the third time on it is handled alone, so
	// that other messages are not counted with it. At most 40. Default: 10.
	CrashLimit int
	// ProbeMin and ProbeMax bound the pause between tries while the handler returns Unavailable.
	// Default: 1 s and 30 s.
	ProbeMin, ProbeMax time.Duration

	// The consumer.

	// Prefetch is how many messages the broker sends ahead, from Concurrency to 65535; in the first
	// moments there may be one more. Raise it where handlers take less than the way to the broker.
	// With a Batch it is at least the size of one. Default: twice the concurrency, at least 4; with
	// OrderBy at least 128; with a
	// Batch twice the concurrency times its size; with a Rate no more than that lets pass in a second,
	// and at least Concurrency, with a Batch times its size.
	Prefetch int
	// ConsumerTag identifies the consumer in the broker's tools. At most 255 bytes. Default: a unique one.
	ConsumerTag string
	// ExclusiveConsumer refuses all other consumers of a classic queue. It is an error with a quorum
	// queue, where RabbitMQ ignores it: use SingleActiveConsumer there. Default: false.
	ExclusiveConsumer bool
	// ConsumerPriority is the priority of this consumer: those of lower priority receive only while
	// those of higher priority are busy. It can be negative. Default: 0.
	ConsumerPriority int
}

// AfterFail is what happens to the messages of a key when one of them has failed for good: with Skip they are handled, with Halt they
// wait for an operator. See [Subscriber.OrderBy].
type AfterFail int

const (
	// Skip handles the messages that follow.
	Skip AfterFail = iota
	// Halt has them wait until the message is replayed from the failed queue: it is then handled before them. If it is
	// not to be handled, admin.Admin.Skip lets them continue.
	Halt
)

// withDefaults fills in what is not set. The native layout is the client's.
func (s Subscriber) withDefaults(native layouts.Native) Subscriber {
	orDefault(&s.Concurrency, 1)
	if s.Batch.Handle != nil {
		s.Batch = s.Batch.withDefaults()
		orDefault(&s.Prefetch, s.Batch.prefetch(s.Concurrency, s.Rate))
	}
	if s.OrderBy != nil {
		orDefault(&s.Prefetch, max(orderedPrefetch, 2*s.Concurrency))
		orDefault(&s.MaxHeld, 1000)
		orDefault(&s.Partitions, 1)
	}
	orDefault(&s.Prefetch, consume.UsualPrefetch(s.Concurrency, s.Rate))
	if s.Rate > 0 {
		orDefault(&s.Burst, 1)
	}
	orDefault(&s.Timeout, 5*time.Minute)
	orDefault(&s.StuckAfter, 30*time.Second)
	orDefault(&s.StopGrace, 5*time.Second)
	orDefault(&s.CrashLimit, 10)
	orDefault(&s.ProbeMin, time.Second)
	orDefault(&s.ProbeMax, max(30*time.Second, s.ProbeMin))
	if s.Layout == nil {
		s.Layout = native.Settings()
	}
	if l := s.layout(); l != nil && !s.Retry.set {
		def := Steps(l.Delays()...)
		def.usual = true
		def.jitter, def.immediate = s.Retry.jitter, s.Retry.immediate
		s.Retry = def
	}
	return s
}

// layout is the mechanics of the layout; nil if validate does not accept it.
func (s Subscriber) layout() layouts.Layout {
	l, _ := layouts.Of(s.Layout)
	return l
}

const (
	maxPrefetch   = 65535 // AMQP's limit
	maxCrashLimit = 40    // below the delivery limit of the queue, which would act first
	maxRate       = 1e6   // a bucket counts in nanoseconds
	maxBurst      = 1e6

	maxQuorumPriority = 31

	orderedPrefetch = 128
	maxHeld         = 50_000 // an owner has all of them delivered, of 65,535 that AMQP allows
)

func (s Subscriber) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, err := layouts.Of(s.Layout); err != nil { // much of what follows needs the layout
		fault("Layout: %w", err)
		return errors.Join(faults...)
	}
	if s.Queue == "" {
		fault("Queue is empty")
	}
	if layouts.Partitioned(s.Queue) != s.Queue {
		fault("Queue %q: a name like this is that of a partition of an ordered queue; choose another one", s.Queue)
	} else if err := layouts.CheckName("Queue", s.Queue); err != nil {
		faults = append(faults, err)
	}
	if s.Handler == nil && s.Batch.Handle == nil {
		fault("Handler is nil, and Batch.Handle is nil, too")
	}
	if f, ok := s.Handler.(HandlerFunc); ok && f == nil {
		fault("Handler is a HandlerFunc that is nil")
	}
	for i, m := range s.Middleware {
		if m == nil {
			fault("Middleware %d is nil", i)
		}
	}
	faults = append(faults, s.batchFaults()...)
	faults = append(faults, s.orderFaults()...)
	if s.Exchange != "" && !s.ExistingExchange && !strings.HasPrefix(s.Exchange, "amq.") {
		if err := checkExchange(s.Exchange, s.ExchangeType); err != nil {
			faults = append(faults, err)
		}
	}
	if len(s.Exchange) > 255 {
		fault("Exchange has %d bytes, AMQP allows 255", len(s.Exchange))
	}
	if !utf8.ValidString(s.Exchange) {
		fault("Exchange %q is not UTF-8", s.Exchange)
	}
	if len(s.ConsumerTag) > 255 {
		fault("ConsumerTag has %d bytes, AMQP allows 255", len(s.ConsumerTag))
	}
	if s.Exchange == "" && len(s.Keys) > 0 && len(s.layout().Subscription(s.queueSpec()).Exchanges) == 0 {
		fault("Keys are set, and Exchange is not")
	}
	for _, key := range s.Keys {
		if len(key) > 255 {
			fault("Keys: %q… has %d bytes, AMQP allows 255", key[:32], len(key))
		}
	}
	if s.Concurrency < 1 {
		fault("Concurrency %d must be positive", s.Concurrency)
	}
	if s.Prefetch < s.Concurrency || s.Prefetch > maxPrefetch {
		fault("Prefetch %d must be from Concurrency, %d, to %d", s.Prefetch, s.Concurrency, maxPrefetch)
	}
	s.checkRate(fault)
	if s.Timeout <= 0 || s.StuckAfter <= 0 || s.StopGrace <= 0 {
		fault("Timeout %v, StuckAfter %v and StopGrace %v must be positive", s.Timeout, s.StuckAfter, s.StopGrace)
	}
	if s.CrashLimit < 1 || s.CrashLimit > maxCrashLimit {
		fault("CrashLimit %d must be from 1 to %d", s.CrashLimit, maxCrashLimit)
	}
	if s.ProbeMin <= 0 || s.ProbeMax < s.ProbeMin {
		fault("ProbeMin %v and ProbeMax %v must be positive, in this order", s.ProbeMin, s.ProbeMax)
	}
	if err := layouts.CheckType("QueueType", s.QueueType); err != nil {
		faults = append(faults, err)
	}
	if s.QueueType == layout.Quorum && (s.Exclusive || s.AutoDelete) {
		fault("a quorum queue cannot be Exclusive or AutoDelete")
	}
	if s.QueueType == layout.Quorum && s.MaxPriority > maxQuorumPriority {
		fault("MaxPriority %d: the highest priority of a quorum queue is %d", s.MaxPriority, maxQuorumPriority)
	}
	if s.ExclusiveConsumer && layouts.IsQuorum(s.queue()) {
		fault("ExclusiveConsumer has no effect on a quorum queue; use SingleActiveConsumer, or QueueType layout.Classic")
	}
	if !slices.Contains([]string{"", "reject-publish", "drop-head", "reject-publish-dlx"}, s.Overflow) {
		fault("Overflow %q must be reject-publish, drop-head or reject-publish-dlx", s.Overflow)
	}
	for name, d := range map[string]time.Duration{"MessageTTL": s.MessageTTL, "Expires": s.Expires} {
		if d != 0 && (d < time.Millisecond || d > maxTTL) {
			fault("%s %v must be from 1 ms to %v, RabbitMQ's limit", name, d, maxTTL)
		}
	}
	if s.ConsumerPriority != int(int32(s.ConsumerPriority)) {
		fault("ConsumerPriority %d must fit 32 bits", s.ConsumerPriority)
	}
	if s.MessageTTL < 0 || s.Expires < 0 || s.MaxLength < 0 || s.MaxBytes < 0 || s.MaxPriority < 0 || s.MaxPriority > 255 {
		fault("MessageTTL, Expires, MaxLength, MaxBytes must not be negative, and MaxPriority from 0 to 255")
	}
	if s.ExistingQueue && (s.MessageTTL != 0 || s.Expires != 0 || s.MaxLength != 0 || s.MaxBytes != 0 || s.Overflow != "" ||
		s.MaxPriority != 0 || s.Exclusive || len(s.QueueArgs) > 0) {
		fault("ExistingQueue uses a queue unchanged; it cannot be combined with settings of the queue")
	}
	if s.PolicyPriority < 0 || s.PolicyPriority > 0 && (s.ExistingQueue || s.Exclusive || s.AutoDelete) {
		fault("PolicyPriority %d must be positive, and only for a queue that rehop declares and that lasts", s.PolicyPriority)
	}
	if sneakers, ok := s.Layout.(layout.Sneakers); ok && sneakers.Reject && s.PolicyPriority > 0 {
		fault("PolicyPriority: without the policy, messages that Sneakers.Reject rejects would be lost; do not use both")
	}
	if err := s.layout().Validate(); err != nil {
		fault("Layout: %w", err)
	} else {
		faults = append(faults, s.losses()...)
	}
	if _, tiers := s.Layout.(layout.Tiers); tiers && s.Retry.jitter > 0 {
		fault("Retry: jitter makes a message wait longer than its tier, and so for the delay of the next tier; remove it")
	}
	if err := s.Retry.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// checkRate finds rates that are impossible, or at which messages would stay unacked for too long.
func (s Subscriber) checkRate(fault func(format string, args ...any)) {
	switch {
	case !(s.Rate >= 0 && s.Rate <= maxRate): // neither is true of NaN
		fault("Rate %v must be from 0 to %.0f per second", s.Rate, maxRate)
		return
	case s.Rate == 0 && s.Burst != 0:
		fault("Burst %d is set, and Rate is not", s.Burst)
		return
	case s.Rate == 0:
		return
	}
	if s.Burst < 1 || s.Burst > maxBurst {
		fault("Rate: Burst %d must be from 1 to %.0f", s.Burst, maxBurst)
	}
	if wait := s.times().RateWait(); wait > consume.MaxRateWait && s.OrderBy == nil {
		fault("Rate: with a Prefetch of %d and %d immediate retries, a message could wait for %v, and the longest wait allowed is %v; lower Prefetch, Concurrency or the number of immediate retries, or raise Rate",
			s.Prefetch, s.Retry.immediate, wait.Round(time.Millisecond), consume.MaxRateWait)
	}
}

// times are how long messages may be held.
func (s Subscriber) times() consume.Timeout {
	return consume.Timeout{Prefetch: s.Prefetch, Concurrency: s.Concurrency, Handler: s.Timeout, StuckAfter: s.StuckAfter,
		Rate: s.Rate, Immediate: s.Retry.immediate, Batch: s.Batch.settings()}
}

// losses are settings by which the broker removes messages from the queue, where the layout has no
// failed queue for them: they would be lost, at once or when the broker finds that they go in a cycle.
func (s Subscriber) losses() (faults []error) {
	q := s.queue()
	if s.ExistingQueue || s.layout().DeadLettersToFailed(q) || s.QueueArgs["x-dead-letter-exchange"] != nil {
		return nil
	}
	fault := func(setting string) {
		faults = append(faults, fmt.Errorf("%s: with a %T there is no failed queue for messages that the broker drops from queue %q, and they would be lost; remove this setting, or set a dead-letter exchange in QueueArgs",
			setting, s.Layout, s.Queue))
	}
	if q.Args["x-message-ttl"] != nil {
		fault("MessageTTL")
	}
	if (q.Args["x-max-length"] != nil || q.Args["x-max-length-bytes"] != nil) && q.Args["x-overflow"] != "reject-publish" {
		fault("MaxLength and MaxBytes without Overflow reject-publish")
	}
	return faults
}

// queueArgs are the arguments beyond what the layout sets.
func (s Subscriber) queueArgs() map[string]any {
	args := make(map[string]any)
	for name, n := range map[string]int64{
		"x-message-ttl": s.MessageTTL.Milliseconds(), "x-expires": s.Expires.Milliseconds(),
		"x-max-length": int64(s.MaxLength), "x-max-length-bytes": int64(s.MaxBytes),
	} {
		if n > 0 {
			args[name] = n
		}
	}
	if s.MaxPriority > 0 && s.QueueType != layout.Quorum {
		args["x-max-priority"] = int64(s.MaxPriority)
	}
	if s.Overflow != "" {
		args["x-overflow"] = s.Overflow
	}
	if s.SingleActiveConsumer {
		args["x-single-active-consumer"] = true
	}
	maps.Copy(args, s.QueueArgs)
	return args
}

// queueType is the type for the layout; "" is its usual type.
func (s Subscriber) queueType() layout.QueueType {
	if _, native := s.Layout.(layout.Native); native && s.QueueType == "" && (s.Exclusive || s.AutoDelete || s.MaxPriority > 0) {
		return layout.Classic
	}
	return s.QueueType
}

// queue is the declared queue, with what a policy may set.
func (s Subscriber) queue() topology.Queue { return s.layout().Queue(s.queueSpec()) }

// isolates reports whether the subscription can change to one message at a time and back, for which
// it replaces its consumer: a temporary queue would be deleted with the consumer, and an exclusive or
// single active consumer could be replaced by another program's.
func (s Subscriber) isolates() bool {
	return s.OrderBy == nil && !s.Exclusive && !s.AutoDelete && !s.ExclusiveConsumer && !s.SingleActiveConsumer && s.QueueArgs["x-single-active-consumer"] != true
}

func (s Subscriber) queueSpec() layouts.QueueSpec {
	return layouts.QueueSpec{
		Name: s.Queue, Type: s.queueType(), Passive: s.ExistingQueue, Exclusive: s.Exclusive, AutoDelete: s.AutoDelete,
		Args: s.queueArgs(), Ordered: s.OrderBy != nil, Partitions: s.Partitions, Exchange: s.Exchange, ExchangeType: s.ExchangeType, ExistingExchange: s.ExistingExchange, Keys: s.Keys,
	}
}

// plan is everything that the subscription needs on the broker.
func (s Subscriber) plan(native layouts.Native) (topology.Plan, error) {
	plan, err := layouts.SubscriptionPlan(s.layout(), native, s.queueSpec(), s.Retry.fixed())
	for i := range plan.Queues {
		plan.Queues[i].Priorities = plan.Queues[i].Name == s.Queue && s.quorumPriorities()
	}
	if err != nil || s.PolicyPriority == 0 {
		return plan, err
	}
	return plan.ByPolicy(s.PolicyPriority, s.Queue), nil
}

// quorumPriorities reports whether the subscription needs priorities of a quorum queue, which not every
// release has.
func (s Subscriber) quorumPriorities() bool {
	return s.MaxPriority > 0 && s.QueueType == layout.Quorum
}

func (s Subscriber) consumeOptions(queue string, plan topology.Plan) rabbit.ConsumeOptions {
	o := rabbit.ConsumeOptions{Queue: queue, Tag: s.ConsumerTag, Exclusive: s.ExclusiveConsumer, Plan: plan,
		QuorumPriorities: s.quorumPriorities()}
	if s.ConsumerPriority != 0 {
		o.Args = map[string]any{"x-priority": int32(s.ConsumerPriority)}
	}
	if s.QueueType == layout.Quorum || s.ExistingQueue && s.QueueType == "" || layouts.IsQuorum(s.queue()) {
		o.Timeout = s.times().Consumer()
	}
	if s.OrderBy != nil {
		o.Timeout = s.times().Ordered()
		o.First = s.Queue // the broker may refuse another number of partitions
	}
	return o
}

// settings are those of the running subscription: one for each queue that it consumes.
func (s Subscriber) settings(forms []consume.Form) []consume.Settings {
	handler := s.Handler
	for _, wrap := range slices.Backward(s.Middleware) {
		handler = wrap(handler)
	}
	var classify func(view any, err error) error
	if s.Classify != nil {
		classify = func(view any, err error) error { return s.Classify(view.(*Delivery), err) }
	}
	all := make([]consume.Settings, max(1, s.Partitions))
	var shared *consume.Partitions
	if len(all) > 1 {
		shared = consume.NewPartitions(len(all), s.Concurrency, s.Rate, s.Burst)
	}
	spec := s.queueSpec()
	for i := range all {
		spec.Name = layouts.PartitionQueue(s.Queue, i)
		declared := s.layout().Queue(spec)
		all[i] = consume.Settings{
			Order: s.order(i, shared),
			Queue: spec.Name, Concurrency: s.Concurrency, Prefetch: s.Prefetch,
			Timeout: s.Timeout, StuckAfter: s.StuckAfter, StopGrace: s.StopGrace,
			Batch: s.Batch.settings(), CrashLimit: s.CrashLimit, ProbeMin: s.ProbeMin, ProbeMax: s.ProbeMax,
			Rate: s.Rate, Burst: s.Burst, Classify: classify,
			Schedule: consume.Schedule{Attempts: s.Retry.maxAttempts, Immediate: s.Retry.immediate, After: s.Retry.after},
			Layout:   s.layout(), Declared: declared, Forms: forms, Options: s.consumeOptions(spec.Name, forms[0].Plan),
			Isolates: s.isolates(), LastConsumer: s.AutoDelete,
			DeadLetters: s.PolicyPriority == 0 && s.layout().DeadLettersToFailed(declared), // a policy may be missing
			Handler:     &deliveries{handler: handler, batch: s.Batch, queue: spec.Name, attempts: s.Retry.maxAttempts},
		}
	}
	return all
}
