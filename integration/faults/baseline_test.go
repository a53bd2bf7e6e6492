package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// baseline is what most projects use for retries: a classic durable queue whose rejected messages are
// dead-lettered to a classic queue with a time to live, from which they are dead-lettered back. It is
// written with amqp091-go alone, with persistent messages and confirms on publishing.
type baseline struct {
	books  *delivery.History
	script delivery.Script
	dial   func(context.Context) (*amqp.Connection, error)
	next   [baselinePublishers]int
}

const (
	baseWork, baseRetry, baseFailed = "base-work", "base-retry", "base-failed"
	baseExchange, baseRetryExchange = "base", "base.retry"
	baseDelay                       = 300 * time.Millisecond
	baseAttempts                    = 3
	basePrefetch                    = 100
	baselinePublishers              = 3
	baselineWindow                  = 64
	baselineKills                   = 12
	// baselineQuiet is how long nothing may happen before what is missing counts as lost.
	baselineQuiet = 10 * time.Second
	baselineLimit = 20 * time.Minute
)

// TestBaseline shows that the auditor sees loss where there is some: the usual recipe for retries loses
// messages when the broker is killed. It passes when loss was caught.
func TestBaseline(t *testing.T) {
	if os.Getenv("REHOP_FAULTS") != "baseline" {
		t.Skip("takes minutes: REHOP_FAULTS=baseline runs it")
	}
	seed := seeds.Of(t)
	r := lab.Single(t)
	ctx, cancel := context.WithTimeout(t.Context(), baselineLimit)
	defer cancel()
	books, err := delivery.NewHistory(filepath.Join(t.TempDir(), "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	b := &baseline{books: books, script: delivery.Script{Seed: seed, Exchange: baseExchange, Queues: []string{baseWork}}, dial: r.Dial}
	if err := b.declare(ctx); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for kills < baselineKills {
		if err := b.round(ctx, func() {
			r.Services("kill", "single")
			r.Services("start", "single")
		}); err != nil {
			t.Fatal(err)
		}
		kills++
		lost := delivery.Unsettled(books.Events(), b.script.Queues)
		t.Logf("kill %d: %d confirmed so far, %d lost", kills, books.Count(delivery.Confirmed), lost)
		if lost > 0 {
			break
		}
	}
	if err := b.find(ctx); err != nil {
		t.Fatal(err)
	}
	report := delivery.Audit(books.Events(), delivery.Rules{
		Queues: b.script.Queues, Fate: b.fate, Attempts: baseAttempts, Faults: kills, Witness: delivery.Sees(delivery.Lost), Unbounded: true,
	})
	report.Seed = seed
	summary = &report
	t.Logf("the usual recipe: %s", report.Line())
	switch {
	case report.Lost == 0:
		t.Errorf("no loss seen in %d kills: the auditor is blind, or the recipe has become safe", kills)
	case len(report.Inconclusive) > 0:
		t.Errorf("loss was seen, and yet: %v", report.Inconclusive)
	}
}

// fate is the script's, for a recipe that has one delay for all and no route to nowhere.
func (b *baseline) fate(queue, id string) delivery.Fate {
	switch f := b.script.Fate(queue, id); f {
	case delivery.FailsLater:
		return delivery.FailsOnce
	case delivery.Unbound:
		return delivery.Fine
	default:
		return f
	}
}

func (b *baseline) declare(ctx context.Context) error {
	return b.channel(ctx, func(ch *amqp.Channel) error {
		var faults []error
		exchange := func(name string) {
			faults = append(faults, ch.ExchangeDeclare(name, "direct", true, false, false, false, nil))
		}
		queue := func(name string, args amqp.Table) {
			_, err := ch.QueueDeclare(name, true, false, false, false, args)
			faults = append(faults, err)
		}
		exchange(baseExchange)
		exchange(baseRetryExchange)
		queue(baseWork, amqp.Table{"x-dead-letter-exchange": baseRetryExchange})
		queue(baseRetry, amqp.Table{"x-message-ttl": baseDelay.Milliseconds(), "x-dead-letter-exchange": baseExchange})
		queue(baseFailed, nil)
		faults = append(faults, ch.QueueBind(baseWork, baseWork, baseExchange, false, nil), ch.QueueBind(baseRetry, baseWork, baseRetryExchange, false, nil))
		return errors.Join(faults...)
	})
}

func (b *baseline) channel(ctx context.Context, use func(*amqp.Channel) error) error {
	conn, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return use(ch)
}

// round publishes and consumes, strikes, continues for a while, and then waits until nothing moves.
func (b *baseline) round(ctx context.Context, strike func()) error {
	consuming, stopConsuming := context.WithCancel(ctx)
	publishing, stopPublishing := context.WithCancel(ctx)
	var consumers, publishers sync.WaitGroup
	defer consumers.Wait()
	defer stopConsuming()
	defer publishers.Wait()
	defer stopPublishing()
	consumers.Go(func() { b.keep(consuming, b.consume) })
	for i := range baselinePublishers {
		publishers.Go(func() { b.keep(publishing, func(ctx context.Context) error { return b.publish(ctx, i) }) })
	}
	before := b.books.Count(delivery.Confirmed)
	if err := b.books.Await(ctx, delivery.Confirmed, before+4000); err != nil {
		return err
	}
	b.books.Record(delivery.Event{Kind: delivery.FaultBegins, Fault: "broker killed"})
	strike()
	b.books.Record(delivery.Event{Kind: delivery.FaultEnds, Fault: "broker killed"})
	if err := b.books.Await(ctx, delivery.Confirmed, b.books.Count(delivery.Confirmed)+1000); err != nil {
		return err
	}
	stopPublishing()
	publishers.Wait()
	return b.books.Quiet(ctx, baselineQuiet)
}

// keep does something again whenever its connection is lost.
func (b *baseline) keep(ctx context.Context, do func(context.Context) error) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			b.books.Record(delivery.Event{Kind: delivery.Lost, Client: "baseline", Comment: err.Error()})
		}
	}
}

// publish publishes with a window of unconfirmed messages. What is in doubt is given up.
func (b *baseline) publish(ctx context.Context, publisher int) error {
	return b.channel(ctx, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		type sent struct {
			id      string
			confirm *amqp.DeferredConfirmation
		}
		var window []sent
		settle := func(keep int) {
			for ; len(window) > keep; window = window[1:] {
				outcome := delivery.Unknown // a negative confirm and a lost one look the same here
				if window[0].confirm.Wait() {
					outcome = delivery.Confirmed
				}
				b.books.Record(delivery.Event{Kind: outcome, ID: window[0].id})
			}
		}
		defer settle(0)
		for ctx.Err() == nil {
			b.next[publisher]++
			m := b.script.Message(fmt.Sprintf("base%d.%d", publisher, b.next[publisher]))
			b.books.Record(delivery.Event{Kind: delivery.Attempt, ID: m.ID, Body: delivery.Digest(m.Body)})
			confirm, err := ch.PublishWithDeferredConfirm(baseExchange, baseWork, true, false,
				amqp.Publishing{MessageId: m.ID, Body: m.Body, DeliveryMode: amqp.Persistent})
			if err != nil {
				b.books.Record(delivery.Event{Kind: delivery.Unknown, ID: m.ID})
				return err
			}
			window = append(window, sent{m.ID, confirm})
			settle(baselineWindow - 1)
		}
		return nil
	})
}

// consume handles messages: it acks what succeeds, rejects what fails, and after the last attempt
// publishes to the failed queue, confirmed, before it acks.
func (b *baseline) consume(ctx context.Context) error {
	return b.channel(ctx, func(ch *amqp.Channel) error {
		if err := errors.Join(ch.Confirm(false), ch.Qos(basePrefetch, 0, false)); err != nil {
			return err
		}
		deliveries, err := ch.Consume(baseWork, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for {
			select {
			case d, ok := <-deliveries:
				if !ok {
					return errors.New("connection lost")
				}
				if err := b.handle(ch, d); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (b *baseline) handle(ch *amqp.Channel, d amqp.Delivery) error {
	attempt := 1 + rejections(d)
	b.books.Record(delivery.Event{Kind: delivery.Start, ID: d.MessageId, Queue: baseWork, Number: attempt, Body: delivery.Digest(d.Body)})
	end := delivery.Event{Kind: delivery.Failed, ID: d.MessageId, Queue: baseWork, Number: attempt, Delay: baseDelay}
	fate := b.fate(baseWork, d.MessageId)
	switch {
	case fate == delivery.Fine, fate == delivery.FailsOnce && attempt > 1:
		end.Kind, end.Delay = delivery.Handled, 0
		b.books.Record(end)
		return d.Ack(false)
	case attempt < baseAttempts:
		b.books.Record(end)
		return d.Reject(false)
	}
	end.Delay = 0
	b.books.Record(end)
	confirm, err := ch.PublishWithDeferredConfirm("", baseFailed, true, false, amqp.Publishing{MessageId: d.MessageId, Body: d.Body, DeliveryMode: amqp.Persistent})
	if err != nil {
		return err
	}
	if !confirm.Wait() {
		return errors.New("not confirmed")
	}
	b.books.Record(delivery.Event{Kind: delivery.Parked, ID: d.MessageId, Queue: baseWork})
	return d.Ack(false)
}

// rejections is how often the message was rejected from the work queue.
func rejections(d amqp.Delivery) int {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, entry := range deaths {
		death, _ := entry.(amqp.Table)
		if death["queue"] == baseWork && death["reason"] == "rejected" {
			count, _ := death["count"].(int64)
			return int(count)
		}
	}
	return 0
}

// find writes down what lies in the queues.
func (b *baseline) find(ctx context.Context) error {
	for queue, place := range map[string]delivery.Place{baseWork: delivery.InQueue, baseRetry: delivery.InWait, baseFailed: delivery.InFailed} {
		err := b.channel(ctx, func(ch *amqp.Channel) error {
			for {
				d, ok, err := ch.Get(queue, true)
				if err != nil || !ok {
					return err
				}
				b.books.Record(delivery.Event{Kind: delivery.Found, Place: place, Queue: baseWork, ID: d.MessageId, Number: baseAttempts, Body: delivery.Digest(d.Body)})
			}
		})
		if err != nil {
			return fmt.Errorf("read queue %q: %w", queue, err)
		}
	}
	b.books.Record(delivery.Event{Kind: delivery.Drained})
	return nil
}
