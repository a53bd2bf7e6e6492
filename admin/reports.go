package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Report is a copy of a message that went to a failed queue, or the outcome of a message that was replayed. Subscribers publish reports
// if rehop.Config.Reports is set.
type Report struct {
	// Failed is a copy of a failed message, as Failed would return it, and FailedQueue is where the message went. Nil: it is an outcome.
	Failed      *Message
	FailedQueue string
	// Outcome is what became of a message that was replayed.
	Outcome Outcome
}

// Outcome is what became of a message that was replayed.
type Outcome struct {
	Run     string // Options.Run of the replay
	ID      string // of the message that was published
	Queue   string // in which it was handled
	Handled bool   // false: it is in the failed queue again
}

// ReportOptions are how reports are collected.
type ReportOptions struct {
	// Queue collects the reports. All who collect from the same queue share them. It is bound to the exchange rehop.reports, and has at
	// most 100,000 reports: then the broker drops the oldest. Default: rehop.triage.
	Queue string
	// Most is how many reports are taken at a time at most. Default: 500.
	Most int
	// Wait is how long to wait for more, after the first. Default: 100 ms.
	Wait time.Duration
}

const (
	reportsQueue  = "rehop.triage"
	reportsLength = 100_000
	reportsMost   = 500
	reportsWait   = 100 * time.Millisecond
)

// ErrReportsEnded: the connection was lost, or the broker has deleted the queue that collects reports. Call Reports again.
var ErrReportsEnded = errors.New("the connection is lost, or the broker has deleted the queue of the reports")

// Reports calls take with reports, some at a time, until ctx ends or take returns an error, and returns that error. Reports are acked after take
// has returned nil; otherwise the broker delivers them again.
func (a *Admin) Reports(ctx context.Context, o ReportOptions, take func(ctx context.Context, some []Report) error) error {
	if o.Queue == "" {
		o.Queue = reportsQueue
	}
	if o.Most <= 0 {
		o.Most = reportsMost
	}
	if o.Wait <= 0 {
		o.Wait = reportsWait
	}
	session, err := a.read.OpenSession(ctx, rabbit.ConsumeOptions{Queue: o.Queue, Plan: reportsPlan(o.Queue)}, 2*o.Most)
	if err != nil {
		return fmt.Errorf("collect reports in queue %q: %w", o.Queue, err)
	}
	defer session.Close()
	for {
		some, deliveries, err := a.nextReports(ctx, session, o)
		if err != nil {
			return fmt.Errorf("collect reports in queue %q: %w", o.Queue, err)
		}
		if len(some) > 0 {
			if err := take(ctx, some); err != nil {
				return err
			}
		}
		for i := range deliveries {
			deliveries[i].Ack()
		}
	}
}

func reportsPlan(queue string) topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: layouts.ReportsExchange, Type: "fanout"}},
		Queues:    []topology.Queue{{Name: queue, Args: topology.Args{"x-queue-type": "quorum", "x-max-length": int64(reportsLength)}}},
		Bindings:  []topology.Binding{{Source: layouts.ReportsExchange, Destination: queue}},
	}
}

// nextReports waits for the next reports. Those that cannot be read are only acked: whoever collects reports reads the failed queues, too.
func (a *Admin) nextReports(ctx context.Context, s *rabbit.Session, o ReportOptions) (some []Report, all []rabbit.Delivery, err error) {
	var due <-chan time.Time
	for len(all) < o.Most {
		d, ok, more := s.NextBefore(due, ctx.Done())
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case !more:
			return nil, nil, ErrReportsEnded
		case !ok:
			return some, all, nil
		}
		if all = append(all, d); due == nil {
			timer := time.NewTimer(o.Wait)
			defer timer.Stop()
			due = timer.C
		}
		if report, ok := a.readReport(d.Delivery); ok {
			some = append(some, report)
		}
	}
	return some, all, nil
}

// readReport reads a report.
func (a *Admin) readReport(d rabbit.Message) (r Report, ok bool) {
	headers := rabbit.FromTable(d.Headers)
	queue := envelope.Text(headers[envelope.Queue])
	switch headers[envelope.Report] {
	case envelope.ReportOutcome:
		r.Outcome = Outcome{Run: envelope.Text(headers[envelope.ReplayRun]), ID: envelope.Text(headers[envelope.OutcomeOf]), Queue: queue,
			Handled: headers[envelope.Outcome] != envelope.OutcomeFailed}
		return r, true
	case envelope.ReportFailed:
		from, err := a.placeOf(queue)
		if err != nil || queue == "" {
			return r, false
		}
		m := from.read(d)
		r.Failed, r.FailedQueue = &m, from.source
		return r, true
	}
	return r, false
}
