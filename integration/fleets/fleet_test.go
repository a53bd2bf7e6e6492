package fleets

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// fleet is a way to retry messages, as programs in another language do it, and the layout with which rehop joins them.
type fleet struct {
	name          string
	library       lab.Library
	program       string
	settings      map[string]any              // the program's
	subscriptions []rehop.Subscriber          // the first is the one that messages are published for
	quorum        bool                        // the queue is a quorum queue
	exchange, key string                      // to which they are published
	compose       func(message) rehop.Message // how rehop writes a message for the program, if that takes more than its body and headers
	own           []string                    // exchanges that only one of the sides has
	programTries  int                         // how often the program tries a message in all
	rehopTries    int
	reason        string // that is known of a message that was tried too often, if the fleet notes it down
	permanent     bool   // a worker can report that no retry helps
	loses         losses
	content       func(body string) string // what of a body stays unchanged
	// shares is by what both sides count.
	shares count
	// rejects: the program rejects what fails, so that it gives up by the broker's count, whatever it sees of rehop's failures.
	rejects bool
	// lostFrom is the release from which a count that the broker keeps does not always last: rehop sends round what a classic queue shows as
	// redelivered, and then it begins anew.
	lostFrom string
}

// count is by what programs count failures.
type count int

const (
	byClients count = iota // an x-death that clients send, which RabbitMQ does not read from 4.0 on
	byBroker               // what the broker itself notes
	byBody                 // the message
)

// failedQueue is where messages rest.
func (f fleet) failedQueue() string {
	s := f.subscriptions[0]
	return layouts.Must(s.Layout).FailedQueue(s.Queue)
}

// losses is what a message loses besides its body, which nobody may touch, when the program deals with it.
type losses struct {
	atRetry, atRest, atReplay loss
}

type loss struct{ id, headers bool }

var (
	nothing    = loss{}
	theHeaders = loss{headers: true}
	everything = loss{id: true, headers: true}
)

func (l loss) and(m loss) loss { return loss{id: l.id || m.id, headers: l.headers || m.headers} }

// delay is how long messages wait between attempts.
const delay = 200 * time.Millisecond

func fleets() []fleet {
	subscription := func(l layout.Layout, queue, exchange string, keys ...string) rehop.Subscriber {
		return rehop.Subscriber{Layout: l, Queue: queue, Exchange: exchange, Keys: keys}
	}
	pubSub := layout.PubSub{Delay: delay}
	sneakers := layout.Sneakers{Delay: delay, Document: true}
	rejecting := layout.Sneakers{Delay: delay, Reject: true}
	inBody := losses{atRetry: everything, atRest: everything, atReplay: theHeaders}
	tiers := layout.Tiers{
		Tiers: []time.Duration{delay, 2 * delay, 3 * delay},
		Waits: []time.Duration{delay, delay + delay/2, 2 * delay}, // the second is between two tiers
	}
	milliseconds := func(all []time.Duration) (ms []int64) {
		for _, d := range all {
			ms = append(ms, d.Milliseconds())
		}
		return ms
	}
	asItIs := func(body string) string { return body }
	wait := delay.Milliseconds()
	return []fleet{
		{
			name: "pubsub", library: lab.PHPAmqplib, program: "pubsub.php",
			settings:      map[string]any{"queue": "ucenter@user", "key": "user.#", "publish": "user.created", "delay": wait, "form": "by-queue"},
			subscriptions: []rehop.Subscriber{subscription(pubSub, "ucenter@user", "master", "user.#")},
			exchange:      "master", key: "user.created",
			// The program gives up when it has retried more than three times, rehop after three.
			programTries: 5, rehopTries: 4, loses: losses{atReplay: theHeaders}, content: asItIs,
		},
		{
			name: "pubsub in Java", library: lab.PHPAmqplib, program: "pubsub.php",
			settings:      map[string]any{"queue": "ucenter@user", "key": "user.#", "publish": "user.created", "delay": wait, "form": "by-queue", "java": true},
			subscriptions: []rehop.Subscriber{subscription(pubSub, "ucenter@user", "master", "user.#")},
			exchange:      "master", key: "user.created", own: []string{"master.retry", "master.failed", "master@retry", "master@failed"},
			programTries: 5, rehopTries: 4, loses: losses{atRest: theHeaders, atReplay: theHeaders}, content: asItIs,
		},
		{
			name: "pubsub of May 2018", library: lab.PHPAmqplib, program: "pubsub.php",
			settings:      map[string]any{"queue": "ucenter@user", "key": "user.#", "publish": "user.created", "delay": wait, "form": "by-key"},
			subscriptions: []rehop.Subscriber{subscription(layout.PubSub{Delay: delay, Form: layout.PubSubByKey}, "ucenter@user", "master", "user.#")},
			exchange:      "master", key: "user.created",
			programTries: 5, rehopTries: 4, loses: losses{atReplay: theHeaders}, content: asItIs,
		},
		{
			name: "dlx", library: lab.Amqplib, program: "dlx.js",
			settings: map[string]any{"queue": "order-summary-queue", "key": "order.updated"},
			subscriptions: []rehop.Subscriber{
				subscription(layout.DLX{}, "order-summary-queue", "order", "order.#"),
				subscription(layout.DLX{}, "order-notification-queue", "order", "order.created"),
			},
			exchange: "order", key: "order.updated",
			programTries: 2, rehopTries: 2, content: asItIs, shares: byBroker,
		},
		{
			name: "tiers", library: lab.Amqplib, program: "tiers.js",
			settings:      map[string]any{"queue": "push", "tiers": milliseconds(tiers.Tiers), "waits": milliseconds(tiers.Waits)},
			subscriptions: []rehop.Subscriber{subscription(tiers, "push", "")},
			quorum:        true, key: "push",
			programTries: 4, rehopTries: 4, content: asItIs,
		},
		{
			name: "sneakers", library: lab.Bunny, program: "sneakers.rb",
			settings:      map[string]any{"queue": "orders", "delay": wait, "form": "document"},
			subscriptions: []rehop.Subscriber{subscription(sneakers, "orders", "sneakers")},
			exchange:      "sneakers", key: "orders",
			programTries: 6, rehopTries: 6, reason: toFail, rejects: true, loses: losses{atReplay: theHeaders}, content: asItIs,
		},
		{
			name: "sneakers that rejects", library: lab.Bunny, program: "sneakers.rb",
			settings:      map[string]any{"queue": "orders", "delay": wait, "form": "retry_info"},
			subscriptions: []rehop.Subscriber{subscription(rejecting, "orders", "sneakers")},
			exchange:      "sneakers", key: "orders",
			programTries: 6, rehopTries: 6, reason: toFail, rejects: true, loses: losses{atReplay: theHeaders}, content: asItIs, shares: byBroker, lostFrom: "4.3",
		},
		{
			name: "kicks with quorum queues", library: lab.Bunny, program: "sneakers.rb",
			settings:      map[string]any{"queue": "orders", "delay": wait, "form": "retry_info", "type": "quorum", "inherits": true},
			subscriptions: []rehop.Subscriber{{Layout: rejecting, Queue: "orders", Exchange: "sneakers", QueueType: layout.Quorum}},
			quorum:        true, exchange: "sneakers", key: "orders",
			programTries: 6, rehopTries: 6, reason: toFail, rejects: true, loses: losses{atReplay: theHeaders}, content: asItIs, shares: byBroker,
		},
		{
			name: "sneakers with a quorum queue", library: lab.Bunny, program: "sneakers.rb",
			settings:      map[string]any{"queue": "orders", "delay": wait, "form": "retry_info", "type": "quorum"},
			subscriptions: []rehop.Subscriber{{Layout: layout.Sneakers{Delay: delay, Reject: true, RetryArgs: map[string]any{}}, Queue: "orders", Exchange: "sneakers", QueueType: layout.Quorum}},
			quorum:        true, exchange: "sneakers", key: "orders",
			programTries: 6, rehopTries: 6, reason: toFail, rejects: true, loses: losses{atReplay: theHeaders}, content: asItIs, shares: byBroker,
		},
		{
			name: "envelope", library: lab.Pika, program: "envelope.py",
			settings:      map[string]any{"queue": "order.main.q", "delay": wait, "quorum": false},
			subscriptions: []rehop.Subscriber{subscription(layout.Envelope{Delay: delay}, "order.main.q", "")},
			exchange:      "order.main.x", key: "order.created",
			programTries: 6, rehopTries: 6, reason: "retry_limit", permanent: true, loses: inBody, content: withoutRecord, shares: byBody,
		},
		{
			name: "envelope in a quorum queue", library: lab.Pika, program: "envelope.py",
			settings: map[string]any{"queue": "order.quorum.q", "delay": wait, "quorum": true},
			subscriptions: []rehop.Subscriber{
				{Layout: layout.Envelope{Name: "order", Delay: delay}, Queue: "order.quorum.q", QueueType: layout.Quorum},
			},
			quorum: true, exchange: "order.main.x", key: "order.created",
			programTries: 6, rehopTries: 6, reason: "retry_limit", permanent: true, loses: inBody, content: withoutRecord, shares: byBody,
		},
	}
}

func fleetNamed(t testing.TB, name string) fleet {
	t.Helper()
	for _, f := range fleets() {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("there is no fleet %q", name)
	panic("unreachable")
}

// withoutRecord is a body without what the envelope layout writes into it.
func withoutRecord(body string) string {
	var members map[string]any
	if json.Unmarshal([]byte(body), &members) != nil {
		return body
	}
	delete(members, layouts.RetryCountMember)
	delete(members, layouts.DeadReasonMember)
	text, err := json.Marshal(members)
	if err != nil {
		return body
	}
	return string(text)
}
