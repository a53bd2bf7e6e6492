package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Trial is a workload under a test that breaks things.
type Trial struct {
	T     *testing.T
	Seed  uint64
	Work  *Workload
	Books *History
	// Random chooses when and where faults strike; the seed repeats it.
	Random *rand.Rand
	// Between is about how many messages are confirmed between two faults.
	Between int
}

// Soon is the limit for what follows at once: the machine may be busy. It ends a test that hangs, and is no bound for
// what is under test.
const Soon = 2 * time.Minute

// stuckAfter is when a workload that does not move is looked at by whoever can unstick it.
const stuckAfter = 40 * time.Second

// NewTrial prepares a trial; the workload may be changed before Start.
func NewTrial(t *testing.T, seed uint64, work *Workload, between int) *Trial {
	return &Trial{T: t, Seed: seed, Work: work, Books: work.History, Random: rand.New(rand.NewPCG(seed, 1)), Between: between}
}

// Must ends the test at an error.
func (x *Trial) Must(err error) {
	x.T.Helper()
	if err != nil {
		x.T.Fatal(err)
	}
}

// Start starts the workload, and waits until enough messages are confirmed and some have taken every way: a fault while
// something is being declared is another matter.
func (x *Trial) Start() {
	x.T.Helper()
	x.Must(x.Work.Start(x.T.Context()))
	script := x.Work.Script
	for _, fate := range []Fate{FailsLater, FailsAlways} {
		x.See(0, Soon, "a message's last attempt", func(e Event) bool {
			return e.Kind == Start && e.Number > 1 && script.Fate(e.Queue, e.ID) == fate && (e.Number == script.Attempts() || fate == FailsLater)
		})
	}
	x.await(enough)
}

// Run lets the workload continue until n more messages are confirmed.
func (x *Trial) Run(n int) {
	x.T.Helper()
	x.await(x.Books.Count(Confirmed) + n)
}

// await waits until n messages are confirmed in all.
func (x *Trial) await(n int) {
	x.T.Helper()
	ctx, cancel := context.WithTimeout(x.T.Context(), 2*Soon)
	defer cancel()
	x.Must(x.Books.Await(ctx, Confirmed, n))
}

// See waits for an event that fits, after the first `after` ones.
func (x *Trial) See(after int, limit time.Duration, what string, fits func(Event) bool) Event {
	x.T.Helper()
	ctx, cancel := context.WithTimeout(x.T.Context(), limit)
	defer cancel()
	e, err := x.Books.AwaitEvent(ctx, after, what, fits)
	x.Must(err)
	return e
}

// SeeKind waits for an event of a kind.
func (x *Trial) SeeKind(after int, kind Kind) {
	x.T.Helper()
	x.See(after, Soon, fmt.Sprintf("an event %q", kind), func(e Event) bool { return e.Kind == kind })
}

// SeeOrCure waits for an event of a kind; if it does not come, the workload is unstuck if it can be, and the
// event must come then.
func (x *Trial) SeeOrCure(after int, what string, kind Kind) {
	x.T.Helper()
	fits := func(e Event) bool { return e.Kind == kind }
	ctx, cancel := context.WithTimeout(x.T.Context(), stuckAfter)
	_, err := x.Books.AwaitEvent(ctx, after, what, fits)
	cancel()
	if err == nil {
		return
	}
	if x.Work.Unstick != nil && x.Work.Unstick(x.T.Context()) {
		what += ", and a cure"
	}
	x.See(after, Soon, what, fits)
}

// Fault lets work continue until a random moment at which a message waits, strikes, and waits until work continues.
// The strike gets the number of events at its beginning.
func (x *Trial) Fault(name string, strike func(began int)) {
	x.T.Helper()
	x.Run(x.Between/4 + x.Random.IntN(x.Between))
	ctx, cancel := context.WithTimeout(x.T.Context(), Soon)
	defer cancel()
	x.Must(x.Books.BeginFault(ctx, name))
	strike(x.Books.Len())
	x.Books.Record(Event{Kind: FaultEnds, Fault: name})
	end := x.Books.Len() // after the end is written down: the auditor counts from there
	for _, kind := range []Kind{Confirmed, Handled} {
		x.SeeOrCure(end, fmt.Sprintf("an event %q after the fault", kind), kind)
	}
}

// Finish drains and audits, and fails the test unless all is well.
func (x *Trial) Finish(rules Rules) Report {
	x.T.Helper()
	ctx, cancel := context.WithTimeout(x.T.Context(), drainLimit)
	defer cancel()
	if err := x.Work.Drain(ctx); err != nil {
		x.T.Errorf("drain: %v", err)
	}
	report := Audit(x.Books.Events(), rules)
	report.Seed = x.Seed
	x.T.Logf("%s (%s)", report.Line(), report.Details())
	if !report.OK() {
		x.T.Errorf("the books do not balance:\n%s", report.Faulty())
	}
	return report
}

const drainLimit = 10 * time.Minute
