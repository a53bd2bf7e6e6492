package layout

import "time"

// Sneakers is the layout of the Maxretry handler of the Ruby gem Sneakers, and of its successor
// Kicks. A queue Q dead-letters to the exchange Q-retry; the queue of that name keeps messages for a
// minute and dead-letters them to Q-retry-requeue, to which Q is bound. A message that has failed too
// often is published to Q-error, with the header retry_info, a JSON object with the reason.
//
// The failures of a message are its deaths in Q. With rehop a message waits in rehop's own delay queues,
// also with different delays for different attempts, and rehop writes its failures into the same record.
// RabbitMQ 4 ignores such a record from a client: there, and wherever other programs must count what
// failed in rehop, set Reject, and use a quorum queue from RabbitMQ 4.3 on.
type Sneakers struct {
	// Delay is the TTL of the retry queue (retry_timeout) and the wait between attempts. It must be
	// that of the Ruby workers: they declare the queue with it. Default: 60 s.
	Delay time.Duration
	// Retries is how often a message is retried (retry_max_times). Set it to what the Ruby workers
	// have. Default: 5.
	Retries int
	// Reject has the broker dead-letter a message that waits for Delay, as the Ruby workers do, so
	// that the broker counts. Set it on RabbitMQ 4 while Ruby workers consume the same queue. From
	// RabbitMQ 4.3 on, the count lasts only if that is a quorum queue: a message that was rejected in a
	// classic queue comes back as redelivered, and rehop publishes it anew. Classic queues can also lose
	// a rejected message when a node dies. Default: rehop publishes the message to its own delay queue,
	// with a confirm.
	Reject bool
	// Document wraps a message that has failed too often in a JSON document, as Sneakers up to 2.11
	// does. Set it if programs that read the error queue expect that. rehop reads both. Default: the
	// body stays unchanged and the record is in the header retry_info, as with Sneakers 2.12 and later
	// and with Kicks.
	Document bool
	// RetryName is the retry exchange and queue. Set it if the workers set retry_exchange.
	// Default: Q-retry.
	RetryName string
	// ErrorName is the error exchange and queue. Set it if the workers set retry_error_exchange.
	// Default: Q-error.
	ErrorName string
	// RequeueName is the exchange by which messages return. Set it if the workers set
	// retry_requeue_exchange. Default: Q-retry-requeue.
	RequeueName string
	// RequeueKey binds the queue to that exchange. Set it if the workers set retry_routing_key.
	// Default: #.
	RequeueKey string
	// RetryArgs are further arguments of the retry and the error queue. Set them if the workers set
	// retry_queue_arguments (Kicks); an empty map is none. Default: what the broker has. If it has
	// nothing yet: the type of the queue, as with Kicks 3.3 and later, if the subscription names one;
	// otherwise none, as with Sneakers and earlier versions of Kicks.
	RetryArgs map[string]any
}
