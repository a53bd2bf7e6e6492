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
	Delays  *delays.Delays
	Inside  *Inside
	Logger  *slog.Logger
	Host    string         // is written into the record of every failure
	Backoff rabbit.Backoff // between tries to consume
}

// open reports whether the broker can be expected to answer, and to take messages.
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
	Rate        float64 // runs of the handler per second; 0: without limit
	Burst       int     // runs at once after a pause
	Schedule    Schedule

	Layout   layouts.Layout
	Declared topology.Queue // the queue as it is declared
	Forms    []Form         // of the layout, the newest first
	Options  rabbit.ConsumeOptions
	// Isolates: the consumer can be replaced by one that gets one message at a time, and back.
	Isolates bool
	// DeadLetters: the broker certainly takes what is rejected to the failed queue by itself.
	DeadLetters bool
	// LastConsumer: the queue ends with its last consumer, so that the consumer cannot be replaced
	// in an outage.
	LastConsumer bool

	Handler Handler
	// Classify makes of an error of the handler the one that decides. Nil: they are the same.
	Classify func(view any, err error) error
	Events   Events
}

// temporary reports whether the queue ends with the subscription, or with the client.
func (s *Settings) temporary() bool { return s.LastConsumer || s.Declared.Exclusive }

// loss says what becomes of messages that a drain leaves in a queue that ends.
func (s *Settings) loss() string {
	if !s.temporary() {
		return ""
	}
	return ", and the rest is lost: " + s.ends()
}

// ends says when a temporary queue is deleted.
func (s *Settings) ends() string {
	if s.LastConsumer {
		return "the queue is deleted with its last consumer"
	}
	return "the queue is exclusive, and is deleted when the client closes"
}

// holdFor is how long a message is held at most while the subscription pauses.
func (s *Settings) holdFor(narrow bool) time.Duration {
	t := Timeout{Prefetch: s.Prefetch, Concurrency: s.Concurrency, Handler: s.Timeout, Rate: s.Rate, Immediate: s.Schedule.Immediate, Batch: s.Batch}
	return t.hold(narrow, !s.LastConsumer)
}

// Schedule says how often a message is tried.
type Schedule struct {
	Attempts  int // in all
	Immediate int // further runs at once, before the first wait
	// After is how long a message waits when it has failed for the nth time. False: it does not.
	After func(n int) (time.Duration, bool)
}

// Handler makes of deliveries what the handler of a user sees, and runs that.
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

// Events are called for what happens to a subscription. Those that are nil are not called.
type Events struct {
	// HandleStart is called before each run of a handler, which gets the context that it returns. For a
	// batch it is called for each message, and the handler gets none of the contexts.
	HandleStart func(ctx context.Context, view any) context.Context
	HandleEnd   func(ctx context.Context, view any, took time.Duration, err error)
	// Move is called before a message is moved. What it writes into headers goes with the message.
	Move func(ctx context.Context, view any, r Result, headers map[string]any)
	// Result is called once for each delivery, when it is settled.
	Result   func(ctx context.Context, view any, r Result)
	Consumer func(up bool, err error)
	Stuck    func(Stuck)
	Pause    func(paused bool, err error)
	// Ended is called when the subscription has ended, before Closed is closed.
	Ended func()
}
