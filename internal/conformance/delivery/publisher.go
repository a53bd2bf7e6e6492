package delivery

import (
	"context"
	"errors"
	"sync"

	"github.com/rehop/rehop"
)

// producer publishes messages one after the other, with a window of several under way.
type producer struct {
	work   *Workload
	name   string // of its messages
	client string // in the history
	rehop  *rehop.Client
	batch  int // how many at once by PublishBatch; 0: each by Publish
	next   int
}

// run publishes until tokens ends.
func (p *producer) run(ctx context.Context, tokens <-chan struct{}) {
	var underway sync.WaitGroup
	defer underway.Wait()
	window := make(chan struct{}, p.work.Window)
	var batch []string
	for range tokens {
		p.next++
		id := id(p.name, p.next)
		if p.batch > 0 {
			if batch = append(batch, id); len(batch) == p.batch {
				p.publishBatch(ctx, batch)
				batch = batch[:0]
			}
			continue
		}
		window <- struct{}{}
		underway.Go(func() {
			defer func() { <-window }()
			p.publish(ctx, p.work.Script.Message(id), "")
		})
	}
	if len(batch) > 0 {
		p.publishBatch(ctx, batch)
	}
}

// publish brings one message to an end that its publisher may leave it at. What may be stored is sent
// again under its id, as an application would; what was not sent is given up, and must never be seen.
func (p *producer) publish(ctx context.Context, m rehop.Message, direct string) {
	for ctx.Err() == nil {
		p.recordAttempt(m, direct)
		limited, cancel := context.WithTimeout(ctx, p.work.PublishTimeout)
		err := p.rehop.Publish(limited, m)
		cancel()
		if !p.recordOutcome(m.ID, err) {
			return
		}
	}
}

func (p *producer) publishBatch(ctx context.Context, ids []string) {
	messages := make([]rehop.Message, len(ids))
	for i, id := range ids {
		messages[i] = p.work.Script.Message(id)
	}
	for len(messages) > 0 && ctx.Err() == nil {
		for _, m := range messages {
			p.recordAttempt(m, "")
		}
		limited, cancel := context.WithTimeout(ctx, p.work.PublishTimeout)
		err := p.rehop.PublishBatch(limited, messages)
		cancel()
		outcomes := make([]error, len(messages))
		var batch *rehop.BatchError
		if errors.As(err, &batch) {
			copy(outcomes, batch.Errors)
		} else if err != nil {
			for i := range outcomes {
				outcomes[i] = err
			}
		}
		var again []rehop.Message
		for i, m := range messages {
			if p.recordOutcome(m.ID, outcomes[i]) {
				again = append(again, m)
			}
		}
		messages = again
	}
}

func (p *producer) recordAttempt(m rehop.Message, direct string) {
	p.work.History.Record(Event{Kind: Attempt, ID: m.ID, Queue: direct, Client: p.client, Body: p.work.Script.digest(m.Body),
		Meta: digestMeta(m.Exchange, m.Key, m.ContentType, m.CorrelationID, m.Type, m.Headers)})
}

// recordOutcome reports whether the message is to be sent again.
func (p *producer) recordOutcome(id string, err error) bool {
	e := Event{Kind: outcomeOf(err), ID: id, Client: p.client}
	if err != nil {
		e.Comment = err.Error()
	}
	p.work.History.Record(e)
	return e.Kind == Unknown || e.Kind == Refused
}

// outcomeOf is what Publish promises with an error.
func outcomeOf(err error) Kind {
	switch {
	case err == nil:
		return Confirmed
	case errors.Is(err, rehop.ErrUnknown): // first: it outweighs the error of a later try
		return Unknown
	case errors.Is(err, rehop.ErrUnroutable):
		return Unroutable
	case errors.Is(err, rehop.ErrRefused):
		return Refused
	case errors.Is(err, rehop.ErrBlocked), errors.Is(err, rehop.ErrDisconnected), errors.Is(err, rehop.ErrClosed):
		return NotSent
	}
	return Unclassified
}
