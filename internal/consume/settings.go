package consume

import (
	"context"
	"log/slog"
	"time"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Shared is what the subscriptions of a client share.
type Shared struct {
	Consume *rabbit.Link      // the connection for consuming
	Publish *rabbit.Link      // the connection for publishing
	Mover   *rabbit.Publisher // publishes what is moved
	Reports *Reports          // nil: nothing is reported
	Delays  *delays.Delays
	Inside  *Inside
	Logger  *slog.Logger
	Host    string         // is written into the record of every failure
	Version string         // of the program; the same
	Backoff rabbit.Backoff // between tries to consume
}

// open reports whether the broker can be expected to answer, and to accept messages.
func (s *Shared) open() bool {
	publish, _ := s.Publish.State()
	consume, _ := s.Consume.State()
	return publish == rabbit.Open && (consume == rabbit.Open || consume == rabbit.Blocked)
}

// Settings are those of one subscription. They are valid and complete.
type Settings struct {
	Queue       string
	Concurrency int
	Prefetch    int
	Timeout     time.Duration
	StuckAfter  time.Duration
	StopGrace   time.Duration
	Batch       Batch
	CrashLimit  int
	ProbeMin    time.Duration
	ProbeMax    time.Duration
	Rate        float64 // runs of the handler per second, each for a message or a batch; 0: without limit
	Burst       int     // runs at once after a pause
	Schedule    Schedule
	Order       *Order // nil: messages are handled in any order

	Layout   layouts.Layout
	Declared topology.Queue // the queue as declared
	Forms    []Form         // of the layout, the newest first
	Options  rabbit.ConsumeOptions
	// Isolates: the consumer can be replaced by one that gets one message at a time, and back.
	Isolates bool
	// DeadLetters: the broker certainly dead-letters rejected messages to the failed queue.
	DeadLetters bool
	// LastConsumer: the queue is deleted with its last consumer, so that the consumer cannot be replaced
	// in an outage.
	LastConsumer bool

	Handler Handler
	// Classify replaces an error of the handler by the one that decides. For a batch it is called for each
	// message that has an error. Nil: errors are not replaced.
	Classify func(view any, err error) error
	Events   Events
}

// temporary reports whether the queue is deleted with the subscription, or with the client.
func (s *Settings) temporary() bool { return s.LastConsumer || s.Declared.Exclusive }

// loss is the text for messages that a drain leaves in a queue that is deleted.
func (s *Settings) loss() string {
	if !s.temporary() {
		return ""
	}
	return ", and the rest is lost: " + s.ends()
}

// ends is when a temporary queue is deleted.
func (s *Settings) ends() string {
	if s.LastConsumer {
		return "the queue is deleted with its last consumer"
	}
	return "the queue is exclusive, and is deleted when the client closes"
}

// holdFor is how long a message stays unacked at most while the subscription pauses.
func (s *Settings) holdFor(narrow bool) time.Duration {
	t := Timeout{Prefetch: s.Prefetch, Concurrency: s.Concurrency, Handler: s.Timeout, Rate: s.Rate, Immediate: s.Schedule.Immediate, Batch: s.Batch}
	return t.hold(narrow, !s.LastConsumer)
}

// Schedule is how often a message is tried.
type Schedule struct {
	Attempts  int // in all
	Immediate int // further runs at once, before the first wait
	// After is how long a message waits when it has failed n times. False: it is not retried.
	After func(n int) (time.Duration, bool)
}

// Handler turns deliveries into what the handler of a user sees, and runs that handler.
type Handler interface {
	// New makes room for a delivery: a Handling and, in the same piece of memory, what the handler
	// sees of it, which is the Handling's View.
	New() *Handling
	// Open fills in the View.
	Open(h *Handling, in Incoming)
	// Handle runs the handler.
	Handle(ctx context.Context, h *Handling) error
	// HandleAll runs the handler for a batch. It returns an answer for each delivery.
	HandleAll(ctx context.Context, all []*Handling) []error
}

// Events are called for what happens to a subscription. The first four may be nil.
type Events struct {
	// HandleStart is called before each run of a handler, which gets the context that it returns. For a
	// batch it is called for each message, and the handler gets none of the contexts.
	HandleStart func(ctx context.Context, view any) context.Context
	HandleEnd   func(ctx context.Context, view any, took time.Duration, err error)
	// Move is called before a message is moved. What it writes into headers is added to the message.
	Move func(ctx context.Context, view any, r Result, headers map[string]any)
	// Result is called once for each delivery, when it is settled.
	Result   func(ctx context.Context, view any, r Result)
	Consumer func(up bool, err error)
	Stuck    func(Stuck)
	Pause    func(paused bool, err error)
	// Held is called when what waits has changed, at most once a second, and every 10 seconds while something waits.
	Held func(Held)
	// Ended is called when the subscription has ended, before Closed is closed.
	Ended func()
}
