package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Breach names a promise that was not kept.
type Breach string

// The breaches, with the numbers that the invariants have in the project's list of faults.
const (
	BreachLost       Breach = "lost"        // I1: confirmed, and nowhere
	BreachInvented   Breach = "invented"    // I2: handled or found, and never published
	BreachBody       Breach = "body"        // I2: another body than was published
	BreachMeta       Breach = "meta"        // I2: other headers, properties or origin
	BreachStray      Breach = "stray"       // a copy reached a queue that it does not belong to
	BreachFate       Breach = "fate"        // I3: handled and failed, or failed without cause
	BreachNotFailed  Breach = "not-failed"  // I3: it always fails, and is not in the failed queue
	BreachDuplicates Breach = "duplicates"  // I5: more than the faults explain
	BreachEarly      Breach = "early"       // I6: retried before its time
	BreachLate       Breach = "late"        // I6: retried long after its time, and after the fault that may explain that
	BreachAttempts   Breach = "attempts"    // I6: more attempts than allowed, or fewer before it failed
	BreachOutcome    Breach = "outcome"     // I7: the publisher got a wrong result
	BreachRecovery   Breach = "recovery"    // I11: too long until work continued
	BreachNotDrained Breach = "not-drained" // I11: did not settle
	BreachMisparked  Breach = "misparked"   // a failed message is where nobody looks for it
	BreachRecord     Breach = "record"      // a program without rehop would misread how often it has failed, or why
)

// Report is what an audit has found.
type Report struct {
	Seed      uint64
	Confirmed int // messages that the broker has confirmed to their publisher
	Handled   int // of these: handled in every queue that they belong to
	Failed    int // of these: rest in a failed queue
	Orphaned  int // of these: rest among the orphans because their queue was deleted
	Unrouted  int // of these: rest among the unrouted, where the layout keeps what has no route
	Waiting   int // of these: still in a queue at the end
	Lost      int // of these: nowhere
	// Duplicates are handler runs for an attempt that had been run before. Copies is how many second
	// copies of messages explain them, Bound how many such copies the faults explain.
	Duplicates, Copies, Bound int
	// Skipped are attempts that came without the one before, or without its wait, because a layout counts a
	// redelivery as a failure.
	Skipped                   int
	Returned                  int // copies of what came back after a failure that were looked at
	Canceled                  int // handlers that were canceled, and have done nothing
	Early, Stray              int
	Faults                    int
	Unknown, Refused, NotSent int // outcomes of publishing
	LatestRetry               int // milliseconds by which the latest retry was late

	Breaches map[Breach]int
	// Examples has a line for the first few breaches of each kind.
	Examples []string
	// Inconclusive is why the run shows nothing.
	Inconclusive []string
}

const examplesPerBreach = 5

func (r *Report) breach(b Breach, format string, args ...any) {
	if r.Breaches[b]++; r.Breaches[b] <= examplesPerBreach {
		r.Examples = append(r.Examples, fmt.Sprintf("%s: ", b)+fmt.Sprintf(format, args...))
	}
}

func (r *Report) inconclusive(format string, args ...any) {
	r.Inconclusive = append(r.Inconclusive, fmt.Sprintf(format, args...))
}

// OK reports whether the run shows that all promises were kept.
func (r *Report) OK() bool { return len(r.Breaches) == 0 && len(r.Inconclusive) == 0 }

// Add sums up reports.
func (r *Report) Add(o Report) {
	r.Confirmed += o.Confirmed
	r.Handled += o.Handled
	r.Failed += o.Failed
	r.Orphaned += o.Orphaned
	r.Unrouted += o.Unrouted
	r.Waiting += o.Waiting
	r.Lost += o.Lost
	r.Duplicates += o.Duplicates
	r.Copies += o.Copies
	r.Bound += o.Bound
	r.Skipped += o.Skipped
	r.Returned += o.Returned
	r.Canceled += o.Canceled
	r.Early += o.Early
	r.Stray += o.Stray
	r.Faults += o.Faults
	r.Unknown += o.Unknown
	r.Refused += o.Refused
	r.NotSent += o.NotSent
	r.LatestRetry = max(r.LatestRetry, o.LatestRetry)
	if r.Breaches == nil {
		r.Breaches = make(map[Breach]int)
	}
	for b, n := range o.Breaches {
		r.Breaches[b] += n
	}
	r.Examples = append(r.Examples, o.Examples...)
	r.Inconclusive = append(r.Inconclusive, o.Inconclusive...)
}

// Line is the report in one line.
func (r *Report) Line() string {
	s := fmt.Sprintf("confirmed=%d handled=%d failed=%d duplicates=%d lost=%d early=%d stray=%d faults=%d seed=%d",
		r.Confirmed, r.Handled, r.Failed, r.Duplicates, r.Lost, r.Early, r.Stray, r.Faults, r.Seed)
	for _, further := range []struct {
		name  string
		count int
	}{{"orphaned", r.Orphaned}, {"unrouted", r.Unrouted}} {
		if further.count > 0 {
			s = strings.Replace(s, " duplicates=", fmt.Sprintf(" %s=%d duplicates=", further.name, further.count), 1)
		}
	}
	return s
}

// Details are the report's lesser figures.
func (r *Report) Details() string {
	return fmt.Sprintf("copies=%d bound=%d skipped=%d returned=%d canceled=%d unknown=%d refused=%d not-sent=%d waiting=%d latest-retry=%dms",
		r.Copies, r.Bound, r.Skipped, r.Returned, r.Canceled, r.Unknown, r.Refused, r.NotSent, r.Waiting, r.LatestRetry)
}

// Faulty describes why a report is not OK.
func (r *Report) Faulty() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(r.Breaches)) {
		fmt.Fprintf(&b, "%s: %d times\n", kind, r.Breaches[kind])
	}
	for _, line := range r.Examples {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	for _, line := range r.Inconclusive {
		fmt.Fprintf(&b, "INCONCLUSIVE: %s\n", line)
	}
	return b.String()
}
