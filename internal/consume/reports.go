package consume

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

const (
	// maxReported is the largest body of which a copy is reported. Larger messages are found in the failed queue.
	maxReported = 1 << 20
	// outcomeLimit is how long a message stays unacked until its outcome is reported.
	outcomeLimit = 5 * time.Second
	// unheardFor is how long no copies are reported after the broker had no queue for a report. Outcomes are: there are few, and somebody
	// who has started a replay waits for them.
	unheardFor = 2 * time.Second
	// stuckFor is how long nothing is reported after a report was not confirmed: handlers must not wait for each.
	stuckFor = 30 * time.Second
	// refusedFor is how long nothing is reported after the broker has refused a report, which closes a channel.
	refusedFor = time.Minute
)

// ReportLimits are those of the publisher of reports. They bound the memory of copies that the broker has not confirmed.
var ReportLimits = rabbit.Limits{Unconfirmed: 256, UnconfirmedBytes: 16 << 20, Waiting: 1024, WaitingBytes: 1 << 20}

// Reports publishes to the exchange rehop.reports a copy of each message that goes to a failed queue, and the outcome of each that was
// replayed. A nil Reports reports nothing.
//
// A copy may get lost: whoever collects them has to compare with the failed queue anyway. An outcome is confirmed before its
// message is acked, so it is lost only if the broker takes no reports for a while. It may come twice.
type Reports struct {
	publisher *rabbit.Publisher
	quiet     atomic.Int64 // until when nothing is reported, in Unix nanoseconds
	unheard   atomic.Int64 // until when no copies are
}

// NewReports publishes by a publisher that has no other messages: an error of the reports' exchange must not cost others
// their confirms.
func NewReports(p *rabbit.Publisher) *Reports { return &Reports{publisher: p} }

// failed reports a message that was moved to a failed queue.
func (r *Reports) failed(p *rabbit.Publishing) {
	if r == nil || len(p.Body) > maxReported || isBefore(&r.unheard) || isBefore(&r.quiet) {
		return
	}
	report := *p
	report.Headers = maps.Clone(p.Headers)
	report.Headers[envelope.Report] = envelope.ReportFailed
	r.publisher.Offer(layouts.ReportsExchange, "", &report, r.note)
}

// outcome reports what has become of a message that was replayed, and waits for the confirm.
func (r *Reports) outcome(h *Handling, queue string, outcome Outcome) {
	if r == nil || h.past.ReplayRun == "" || isBefore(&r.quiet) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), outcomeLimit)
	defer cancel()
	r.note(r.publisher.Publish(ctx, layouts.ReportsExchange, "", &rabbit.Publishing{
		MessageId: rabbit.NewID(), DeliveryMode: rabbit.Persistent, Timestamp: time.Now(),
		Headers: rabbit.ToTable(map[string]any{envelope.Report: envelope.ReportOutcome, envelope.Outcome: string(outcome),
			envelope.OutcomeOf: cmp.Or(h.raw.MessageId, h.givenID), envelope.ReplayRun: h.past.ReplayRun, envelope.Queue: queue}),
	}, true))
}

// isBefore reports whether a time has not come yet.
func isBefore(until *atomic.Int64) bool { return time.Now().UnixNano() < until.Load() }

// note notes the outcome of a report.
func (r *Reports) note(err error) {
	switch {
	case errors.Is(err, rabbit.ErrUnroutable):
		r.unheard.Store(time.Now().Add(unheardFor).UnixNano())
	case errors.Is(err, rabbit.ErrRefused) && !errors.Is(err, rabbit.ErrNacked):
		r.quiet.Store(time.Now().Add(refusedFor).UnixNano())
	case err != nil:
		r.quiet.Store(time.Now().Add(stuckFor).UnixNano())
	}
}
