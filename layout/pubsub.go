package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topology"
)

// PubSub is the layout of services that publish to a topic exchange, master unless the subscription
// names another, and consume from queues that are named service@subscription. Beside each queue are
// queue@retry, from which messages return to the exchange after 30 seconds, and queue@failed. It is that of
// mylxsw/rabbitmq-pubsub-php and mylxsw/rabbitmq-pubsub-java, which have had two forms (see PubSubForm).
//
// A fleet that uses it publishes a failed message to master.retry, or in Java to master@retry, counts by x-death, and confirms
// nothing. A rehop consumer declares the same objects and counts what others have failed, but a message that it
// fails waits in rehop's own queues, returns to its queue alone, and ends in the failed queue of that queue alone.
//
// A message is tried again three times. Code of such a fleet that compares "more than 3" gives it one more.
type PubSub struct {
	rules
	// Delay is the TTL of the retry queue, and the wait between attempts. Default: 30 s.
	Delay time.Duration
	// Form says how the fleet's queues are bound. Default: what the broker has decides, and where it has nothing yet, PubSubByQueue.
	Form PubSubForm
}

// PubSubForm is how a fleet with the layout PubSub leads messages to its retry and failed queues, and back.
type PubSubForm string

const (
	// PubSubByQueue: by the name of the queue that failed a message. The queue is bound to the main exchange by its own name, too. The key with
	// which the message was published is in the header x-orig-routing-key. Both projects do so since 23 May 2018.
	PubSubByQueue PubSubForm = "by-queue"
	// PubSubByKey: by the keys of the subscription, with the message's own key, so that a retry reaches every subscriber. Both projects did so in
	// the ten days before.
	PubSubByKey PubSubForm = "by-key"
)

// origKey is the header in which a fleet keeps the key with which a message was published.
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

func (p PubSub) delay() time.Duration { return cmp.Or(p.Delay, 30*time.Second) }

func (p PubSub) retryQueue(queue string) string { return suffixed(queue, atRetry) }

// Validate looks at the delay and the form.
func (p PubSub) Validate() error {
	faults := []error{checkDelay("PubSub.Delay", p.delay())}
	switch p.Form {
	case "", PubSubByQueue, PubSubByKey:
	default:
		faults = append(faults, fmt.Errorf("PubSub.Form %q must be %q or %q", p.Form, PubSubByQueue, PubSubByKey))
	}
	return errors.Join(faults...)
}

func (p PubSub) forms(QueueSpec) []Layout {
	if p.Form != "" {
		return []Layout{p}
	}
	newer, older := p, p
	newer.Form, older.Form = PubSubByQueue, PubSubByKey
	return []Layout{newer, older}
}

func (p PubSub) spec(q QueueSpec) QueueSpec {
	q.Exchange = cmp.Or(q.Exchange, MasterExchange)
	if len(q.Keys) == 0 {
		q.Keys = []string{"#"}
	}
	return q
}

// Exchange is a topic exchange.
func (p PubSub) Exchange(name, kind string) topology.Plan { return plain(name, kind, "topic") }

// Queue is a durable queue without arguments.
func (p PubSub) Queue(q QueueSpec) topology.Queue { return queueOf(q, nil) }

// Subscription is the queue, bound to the main exchange; by its own name, too, where the retry queue returns messages with that.
func (p PubSub) Subscription(q QueueSpec) topology.Plan {
	q = p.spec(q)
	plan := feed(p, q)
	if p.Form != PubSubByKey && !slices.Contains(q.Keys, q.Name) {
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: q.Exchange, Destination: q.Name, Key: q.Name})
	}
	return plan
}

// Around is the retry and the failed exchange and queue, bound by the name of the queue, or by the keys of the subscription.
func (p PubSub) Around(q QueueSpec) topology.Plan {
	q = p.spec(q)
	retry, failed := suffixed(q.Exchange, dotRetry), suffixed(q.Exchange, dotFail)
	args, keys := topology.Args{"x-dead-letter-exchange": q.Exchange, "x-message-ttl": p.delay().Milliseconds()}, q.Keys
	if p.Form != PubSubByKey {
		args["x-dead-letter-routing-key"], keys = q.Name, []string{q.Name}
	}
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: retry, Kind: "topic"}, {Name: failed, Kind: "topic"}},
		Queues:    []topology.Queue{{Name: p.retryQueue(q.Name), Args: args}, {Name: p.FailedQueue(q.Name)}},
	}
	for _, key := range keys {
		plan.Bindings = append(plan.Bindings,
			topology.Binding{Source: retry, Destination: p.retryQueue(q.Name), Key: key},
			topology.Binding{Source: failed, Destination: p.FailedQueue(q.Name), Key: key})
	}
	plan.Add(Native{}.rest(q.Name, p.FailedQueue(q.Name)))
	return plan
}

// FailedQueue is queue@failed.
func (p PubSub) FailedQueue(queue string) string { return suffixed(queue, atFailed) }

// Delays are three waits.
func (p PubSub) Delays() []time.Duration { return repeated(p.delay(), pubSubRetries) }

// Failures is how often the message has passed the retry queue.
func (p PubSub) Failures(l Letter) int {
	own := p.retryQueue(l.Queue)
	return deathsOf(l.Headers, func(d death) bool { return d.queue == own && d.reason == expired })
}

// Origin is what the fleet has kept of a message that it led to its queue by the queue's name.
func (p PubSub) Origin(l Letter) (exchange, key string) { return l.Exchange, publishedKey(l) }

// publishedKey is the key with which a message was published.
func publishedKey(l Letter) string {
	if kept := envelope.Text(l.Headers[origKey]); kept != "" && l.Key == l.Queue && len(kept) <= maxName {
		return kept
	}
	return l.Key
}

// Stray reports whether the message comes from the retry queue of another subscription. In the older form those of all
// subscribers of a key lead to all of them; in the newer one, to all that are bound by the name of the other queue too, as by #. The copy that is meant
// for this queue comes from its own.
//
// It must have come straight from there. A message that somebody has taken out of another queue and
// published anew, with the record of its life before, is nobody's copy.
func (p PubSub) Stray(l Letter) bool {
	d, ok := newestDeath(l.Headers)
	return ok && d.reason == expired && strings.HasSuffix(d.queue, atRetry) && d.queue != p.retryQueue(l.Queue) &&
		(d.exchange == suffixed(l.Exchange, dotRetry) || d.exchange == suffixed(l.Exchange, atRetry)) && d.key == l.Key
}

// Record is the entry of the retry queue.
func (p PubSub) Record(l Letter, failures int) map[string]any {
	return deathRecord(p.death(l, failures, time.Now()))
}

func (p PubSub) death(l Letter, failures int, at time.Time) death {
	return death{queue: p.retryQueue(l.Queue), reason: expired, exchange: suffixed(l.Exchange, dotRetry), key: l.Key, count: failures, at: at}
}

// Retry lets the message wait. Others look at the newest entry of x-death, whichever queue it is of, so
// that of the queue in which it waits has to carry the count on.
func (p PubSub) Retry(f Failure) Verdict {
	deaths := []death{p.death(f.Letter, f.Attempt, f.At)}
	if f.Via != "" {
		deaths = append([]death{{queue: f.Via, reason: expired, key: f.Key, count: f.Attempt - 1, at: f.At}}, deaths...)
	}
	return Verdict{Do: Wait, Headers: deathRecord(deaths...)}
}

// Fail moves the message to the failed queue of its own queue, past the exchange that would lead it to
// those of all subscribers.
func (p PubSub) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: RestExchange}, Key: f.Key}
}

// Open finds a message that was published to the failed exchange. In a copy that belongs to another queue, the broker's record says to which.
// What rehop has not put there itself, another program has failed, whatever rehop wrote on it before.
func (p PubSub) Open(l Letter) (Letter, envelope.Failure) {
	f := envelope.Read(l.Headers, strings.TrimSuffix(strings.TrimSuffix(l.Exchange, dotFail), atFailed), publishedKey(l))
	// rehop leaves no x-death on what it puts there, so where there is one, the message was put back since.
	if _, died := newestDeath(l.Headers); !f.Rests || died {
		if f.Queue != l.Queue {
			f = f.Elsewhere()
		}
		f = f.ByOthers()
	}
	if f.Queue == "" {
		f.Queue = l.Queue
		if d, ok := newestDeath(l.Headers); ok && d.queue != p.retryQueue(l.Queue) {
			if other, retry := strings.CutSuffix(d.queue, atRetry); retry {
				f.Queue = other
			}
		}
	}
	f.Attempt = max(f.Attempt, 1+p.Failures(Letter{Queue: f.Queue, Headers: l.Headers}))
	return l, f
}

// repeated is n waits. Settings are looked at after they are used here.
func repeated(d time.Duration, n int) []time.Duration {
	all := make([]time.Duration, min(max(n, 0), maxRetries))
	for i := range all {
		all[i] = d
	}
	return all
}
