package layout

import "time"

// PubSub is the layout of services that publish to a topic exchange, master unless the subscription
// names another, and consume from queues that are named service@subscription. Each queue has a
// queue@retry, from which messages return to the exchange after 30 seconds, and a queue@failed. It
// is the layout of mylxsw/rabbitmq-pubsub-php and mylxsw/rabbitmq-pubsub-java, which have had two
// forms (see PubSubForm).
//
// Those projects publish a failed message to master.retry, or in Java to master@retry, count by
// x-death, and use no confirms. rehop declares the same objects and counts what others have failed,
// but a message that it fails waits in rehop's own queues, returns to its queue alone, and ends in
// the failed queue of that queue alone.
//
// A message is retried three times. Programs that compare "more than 3" give it one attempt more.
type PubSub struct {
	// Delay is the TTL of the retry queue and the wait between attempts. It must be that of the other
	// programs: they declare the queue with it. Default: 30 s.
	Delay time.Duration
	// Form is how the retry and failed queues are bound. Set it where an empty broker is to get the
	// older form. Default: the form that the broker has; PubSubByQueue if it has none yet.
	Form PubSubForm
}

// PubSubForm is how applications with the layout PubSub route messages to their retry and failed
// queues, and back.
type PubSubForm string

const (
	// PubSubByQueue routes by the name of the queue that failed a message. The queue is bound to the
	// main exchange by its own name, too. The key with which the message was published is in the
	// header x-orig-routing-key. Both projects do so since 23 May 2018.
	PubSubByQueue PubSubForm = "by-queue"
	// PubSubByKey routes by the keys of the subscription, with the message's own key, so that a retry
	// reaches every subscriber. Both projects did so in the ten days before.
	PubSubByKey PubSubForm = "by-key"
)
