package retrying

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// A dead letter that this queue has not delivered is handled, whatever happened to it elsewhere. From RabbitMQ 4.0 on it looks as if its consumers had
// died here.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	const n = 5
	for name, way := range map[string]struct {
		args amqp.Table
		die  func(t *testing.T, r *lab.Rabbit)
		only layout.QueueType // that the source can have
		once bool             // it was delivered once, or never
		held bool             // a consumer takes and returns messages from the beginning
	}{
		"rejected":                   {die: func(t *testing.T, r *lab.Rabbit) { takes(t, r, n, 1, true) }, once: true},
		"rejected in the end":        {die: func(t *testing.T, r *lab.Rabbit) { takes(t, r, n, 15, false); takes(t, r, n, 1, true) }},
		"expired":                    {args: amqp.Table{"x-message-ttl": 100}, die: func(*testing.T, *lab.Rabbit) {}, once: true},
		"expired after deliveries":   {args: amqp.Table{"x-message-ttl": 300, "x-delivery-limit": 1_000_000}, die: func(*testing.T, *lab.Rabbit) {}, held: true},
		"delivered too often":        {args: amqp.Table{"x-delivery-limit": 54}, die: func(t *testing.T, r *lab.Rabbit) { takes(t, r, n, 55, false) }, only: layout.Quorum},
		"too many, after a delivery": {args: amqp.Table{"x-max-length": n}, die: func(t *testing.T, r *lab.Rabbit) { takes(t, r, n, 1, false); crowd(t, r.Channel(), n) }},
		"too many, after deliveries": {args: amqp.Table{"x-max-length": n}, die: func(t *testing.T, r *lab.Rabbit) { takes(t, r, n, 12, false); crowd(t, r.Channel(), n) }},
	} {
		for _, source := range []layout.QueueType{layout.Classic, layout.Quorum} {
			if way.only != "" && source != way.only {
				continue
			}
			kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
				for _, waiting := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s in a %s queue, consumer waits %v", name, source, waiting), func(t *testing.T) {
						t.Parallel()
						r, ch, rec, c := kit.Setup(t)
						var ids []string
						dead := rehop.Subscriber{Queue: "dead", QueueType: kind, Concurrency: 1, CrashLimit: 10,
							Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
								if d.ID != "ordinary" {
									ids = append(ids, d.ID)
								}
								if d.Attempt != 1 {
									t.Errorf("message %s: got attempt %d, want 1", d.ID, d.Attempt)
								}
								return nil
							})}
						s := kit.Subscribe(t, c, dead)
						if !waiting {
							kit.Stop(t, s)
						} else { // after a first message it is sent more than one at a time
							kit.Publish(t, c, rehop.Message{ID: "ordinary", Key: "dead"})
							kit.Receive(t, rec.Results, "result of an ordinary message")
						}
						args := amqp.Table{"x-queue-type": string(source), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
						if source == layout.Quorum && way.args["x-delivery-limit"] == nil {
							args["x-delivery-limit"] = 100
						}
						for name, value := range way.args {
							args[name] = value
						}
						if source == layout.Classic {
							delete(args, "x-delivery-limit")
						}
						kit.Queue(t, ch, "source", args)
						if way.held {
							returnAll(t, r, "source")
						}
						messages := kit.Numbered("source", n)
						kit.Publish(t, c, messages...)
						way.die(t, r)
						if !waiting {
							kit.WantDepth(t, r, ch, "dead", n)
							s = kit.Subscribe(t, c, dead)
						}
						handled, returned := 0, 0
						for handled < n {
							switch got := kit.Receive(t, rec.Results, "result"); got.Outcome {
							case rehop.OutcomeDone:
								handled++
							case rehop.OutcomeReturned:
								returned++
							default:
								t.Fatalf("result: got %s (%v), want done", got.Outcome, got.Err)
							}
						}
						kit.Stop(t, s)
						var want []string
						for _, m := range messages {
							want = append(want, m.ID)
						}
						if way.held || waiting { // they come in any order
							slices.Sort(ids)
						}
						if !slices.Equal(ids, want) {
							t.Errorf("handled: got %q, want each once and in order, %q", ids, want)
						}
						most := n
						if way.once && (kind == layout.Quorum || name == "expired" || !carriesMark(r)) {
							most = 0
						}
						if returned > most {
							t.Errorf("sent round: got %d times, want at most %d for %d messages", returned, most, n)
						}
						kit.WantDepth(t, r, ch, "dead", 0)
						kit.WantDepth(t, r, ch, "dead.failed", 0)
					})
				}
			})
		}
	}
}

// takes has consumers take all n messages of the queue "source" several times. They die then, or reject the messages for good.
func takes(t *testing.T, r *lab.Rabbit, n, times int, reject bool) {
	t.Helper()
	conn, err := amqp.Dial(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range times {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume("source", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			d := kit.Receive(t, deliveries, "message of the source")
			if reject {
				err = d.Reject(false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// returnAll has a consumer give back every message until the test ends.
func returnAll(t *testing.T, r *lab.Rabbit, queue string) {
	t.Helper()
	deliveries, err := r.Channel().Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with its connection
		for d := range deliveries {
			_ = d.Reject(true)
		}
	}()
}

// hold takes a message from a queue and answers nothing.
func hold(t *testing.T, ch *amqp.Channel, queue string) (d amqp.Delivery) {
	t.Helper()
	lab.Eventually(t, kit.Limit, "a message in "+queue, func() bool {
		got, ok, err := ch.Get(queue, false)
		if err != nil {
			t.Fatalf("get from %q: %v", queue, err)
		}
		d = got
		return ok
	})
	return d
}

// crowd publishes messages that take the place of others.
func crowd(t *testing.T, ch *amqp.Channel, n int) {
	t.Helper()
	for range n {
		if err := ch.PublishWithContext(kit.Context(t), "", "source", false, false, amqp.Publishing{MessageId: "crowd"}); err != nil {
			t.Fatal(err)
		}
	}
}

// carriesMark reports whether a classic queue of this broker marks what was delivered elsewhere as delivered before.
func carriesMark(r *lab.Rabbit) bool {
	var major, minor int
	_, _ = fmt.Sscanf(r.Version(), "%d.%d", &major, &minor)
	return major > 4 || major == 4 && minor >= 3
}

// What a message's consumers did in one attempt does not follow it into the next one.
func TestRetriesForgetCrashes(t *testing.T) {
	t.Parallel()
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		for name, delay := range map[string]time.Duration{"step": 100 * time.Millisecond, "cascade": 0} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r, ch, rec, c := kit.Setup(t)
				seen := make(chan rehop.Delivery, 10)
				s := rehop.Subscriber{Queue: "q", QueueType: kind, Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond),
					Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						seen <- *d
						if delay == 0 {
							return rehop.RetryAfter(300*time.Millisecond, fmt.Errorf("attempt %d", d.Attempt))
						}
						return fmt.Errorf("attempt %d", d.Attempt)
					})}
				kit.Stop(t, kit.Subscribe(t, c, s))
				kit.Publish(t, c, rehop.Message{ID: "m", Key: "q"})
				kit.WantDepth(t, r, ch, "q", 1)
				if err := hold(t, ch, "q").Reject(true); err != nil { // as if a consumer had died
					t.Fatal(err)
				}
				kit.Subscribe(t, c, s)
				for attempt := 1; attempt <= 4; attempt++ {
					d := kit.Receive(t, seen, "attempt")
					if d.Attempt != attempt || d.Redelivered != (attempt == 1) {
						t.Errorf("attempt %d: got attempt %d, redelivered %v; want redelivered in the first alone", attempt, d.Attempt, d.Redelivered)
					}
				}
				for outcome := rehop.OutcomeRetry; outcome != rehop.OutcomeFailed; {
					outcome = kit.Receive(t, rec.Results, "result").Outcome
				}
			})
		}
	})
}
