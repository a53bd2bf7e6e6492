package layouts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// pubSub is the mechanics of [layout.PubSub].
type pubSub struct {
	rules
	layout.PubSub
}

func (p pubSub) Settings() layout.Layout { return p.PubSub }

// origKey is the header with the key with which a message was published.
const origKey = "x-orig-routing-key"

// MasterExchange is the exchange of PubSub unless a subscription names another.
const MasterExchange = "master"

const (
	pubSubRetries = 3

	atRetry  = "@retry"
	atFailed = "@failed"
	dotRetry = ".retry"
	dotFail  = ".failed"
)

func (p pubSub) delay() time.Duration { return cmp.Or(p.Delay, 30*time.Second) }

func (p pubSub) retryQueue(queue string) string { return suffixed(queue, atRetry) }

func (p pubSub) Validate() error {
	faults := []error{checkDelay("PubSub.Delay", p.delay())}
	switch p.Form {
	case "", layout.PubSubByQueue, layout.PubSubByKey:
	default:
		faults = append(faults, fmt.Errorf("PubSub.Form %q must be %q or %q", p.Form, layout.PubSubByQueue, layout.PubSubByKey))
	}
	return errors.Join(faults...)
}

func (p pubSub) forms(QueueSpec) []layout.Layout {
	if p.Form != "" {
		return []layout.Layout{p.PubSub}
	}
	newer, older := p.PubSub, p.PubSub
	newer.Form, older.Form = layout.PubSubByQueue, layout.PubSubByKey
	return []layout.Layout{newer, older}
}

func (p pubSub) spec(q QueueSpec) QueueSpec {
	q.Exchange = cmp.Or(q.Exchange, MasterExchange)
	if len(q.Keys) == 0 {
		q.Keys = []string{"#"}
	}
	return q
}

func (p pubSub) Exchange(name, typ string) topology.Plan { return plain(name, typ, "topic") }

func (p pubSub) Queue(q QueueSpec) topology.Queue { return queueOf(q, nil) }

// Subscription is the queue, bound to the main exchange; in the newer form by its own name, too, with
// which the retry queue returns messages.
func (p pubSub) Subscription(q QueueSpec) topology.Plan {
	q = p.spec(q)
	plan := feed(p, q)
	if p.Form != layout.PubSubByKey && !slices.Contains(q.Keys, q.Name) {
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: q.Exchange, Destination: q.Name, Key: q.Name})
	}
	return plan
}

// RetryTopology is the retry and the failed exchange and queue, bound by the name of the queue, or by
// the keys of the subscription.
func (p pubSub) RetryTopology(q QueueSpec) topology.Plan {
	q = p.spec(q)
	retry, failed := suffixed(q.Exchange, dotRetry), suffixed(q.Exchange, dotFail)
	args, keys := topology.Args{"x-dead-letter-exchange": q.Exchange, "x-message-ttl": p.delay().Milliseconds()}, q.Keys
	if p.Form != layout.PubSubByKey {
		args["x-dead-letter-routing-key"], keys = q.Name, []string{q.Name}
	}
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: retry, Type: "topic"}, {Name: failed, Type: "topic"}},
		Queues:    []topology.Queue{{Name: p.retryQueue(q.Name), Args: args}, {Name: p.FailedQueue(q.Name)}},
	}
	for _, key := range keys {
		plan.Bindings = append(plan.Bindings,
			topology.Binding{Source: retry, Destination: p.retryQueue(q.Name), Key: key},
			topology.Binding{Source: failed, Destination: p.FailedQueue(q.Name), Key: key})
	}
	topologies.Add(&plan, toFailed(q.Name, p.FailedQueue(q.Name)))
	return plan
}

func (p pubSub) FailedQueue(queue string) string { return suffixed(queue, atFailed) }

func (p pubSub) Delays() []time.Duration { return repeated(p.delay(), pubSubRetries) }

// Failures is how often the message has passed the retry queue.
func (p pubSub) Failures(l Message) int {
	own := p.retryQueue(l.Queue)
	return deathsOf(l.Headers, func(d death) bool { return d.queue == own && d.reason == expired })
}

func (p pubSub) Origin(l Message) (exchange, key string) { return l.Exchange, publishedKey(l) }

// publishedKey is the key with which a message was published.
func publishedKey(l Message) string {
	if kept := envelope.Text(l.Headers[origKey]); kept != "" && l.Key == l.Queue && len(kept) <= maxName {
		return kept
	}
	return l.Key
}

// Stray reports whether the message comes from the retry queue of another subscription. In the older
// form those of all subscribers of a key lead to all of them; in the newer one, to all that are bound
// by the name of the other queue too, as by #. The copy for this queue comes from its own retry queue.
//
// It must have come directly from there. A message that a program has consumed from another queue and
// published again with its x-death is not a copy.
func (p pubSub) Stray(l Message) bool {
	d, ok := newestDeath(l.Headers, "")
	return ok && d.reason == expired && strings.HasSuffix(d.queue, atRetry) && d.queue != p.retryQueue(l.Queue) &&
		(d.exchange == suffixed(l.Exchange, dotRetry) || d.exchange == suffixed(l.Exchange, atRetry)) && d.key == l.Key
}

// Record is the entry of the retry queue.
func (p pubSub) Record(l Message, failures int) map[string]any {
	return deathRecord(p.death(l, failures, time.Now()))
}

func (p pubSub) death(l Message, failures int, at time.Time) death {
	return death{queue: p.retryQueue(l.Queue), reason: expired, exchange: suffixed(l.Exchange, dotRetry), key: l.Key, count: failures, at: at}
}

// Retry delays the message. Other programs read the newest entry of x-death, of any queue, so the entry
// of the delay queue must have the count.
func (p pubSub) Retry(f Failure) Verdict {
	deaths := []death{p.death(f.Message, f.Attempt, f.At)}
	if f.Via != "" {
		deaths = append([]death{{queue: f.Via, reason: expired, key: f.Key, count: f.Attempt - 1, at: f.At}}, deaths...)
	}
	return Verdict{Do: Wait, Headers: deathRecord(deaths...)}
}

// Fail moves the message to the failed queue of its own queue, not to the failed exchange, which leads
// to those of all subscribers.
func (p pubSub) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: FailedExchange}, Key: f.Key}
}

// Open reads a message of the failed exchange. A copy that belongs to another queue is recognised by the
// broker's record. A message that rehop has not moved there has failed in another program, whatever
// rehop's record is.
func (p pubSub) Open(l Message) (Message, envelope.Failure) {
	f := envelope.Read(l.Headers, strings.TrimSuffix(strings.TrimSuffix(l.Exchange, dotFail), atFailed), publishedKey(l))
	// rehop removes x-death from what it moves there, so a message with one was replayed since.
	if _, died := newestDeath(l.Headers, ""); !f.InFailedQueue || died {
		if f.Queue != l.Queue {
			f = f.Elsewhere()
		}
		f = f.ByOthers()
	}
	if f.Queue == "" {
		f.Queue = l.Queue
		if d, ok := newestDeath(l.Headers, ""); ok && d.queue != p.retryQueue(l.Queue) {
			if other, retry := strings.CutSuffix(d.queue, atRetry); retry {
				f.Queue = other
			}
		}
	}
	f.Attempt = max(f.Attempt, 1+p.Failures(Message{Queue: f.Queue, Headers: l.Headers}))
	return l, f
}

// repeated is n delays. The settings may not be validated yet.
func repeated(d time.Duration, n int) []time.Duration {
	return slices.Repeat([]time.Duration{d}, min(max(n, 0), maxRetries))
}
