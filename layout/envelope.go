package layout

import "time"

// Envelope is the layout in which messages carry their own record: a JSON object whose retry_count is
// the number of failures and whose dead_reason is why the message has failed for good. For the queue
// order.main.q there are the exchanges order.main.x, order.retry.x and order.dead.x and the queues
// order.retry.q, from which messages return after 15 seconds, and order.dead.q.
//
// Other programs publish a failed message without a confirm and without its properties, to a retry
// queue that returns everything with one routing key to every queue bound for it; and a message that
// they reject is retried without limit. rehop writes the same record, keeps the properties, returns a
// message to its own queue alone, and counts rejections too.
//
// A body that is not a JSON object stays unchanged, and only rehop counts its failures.
type Envelope struct {
	// Name is the prefix of the names. Set it if the queue's name does not begin with it.
	// Default: the queue's name without .main.q or .q.
	Name string
	// Delay is the TTL of the retry queue and the wait between attempts. It must be that of the other
	// programs: they declare the queue with it. Default: 15 s.
	Delay time.Duration
	// Retries is how often a message is retried. Set it to what the other programs use. Default: 5.
	Retries int
	// DeliveryLimit is the x-delivery-limit of the main queue, if the subscription makes that a quorum
	// queue; it then dead-letters to the dead exchange. Set it to that of the queue that exists.
	// Default: 8.
	DeliveryLimit int
	// RequireID fails a message without a message ID at once, without calling the handler. Set it if
	// handlers rely on the ID to recognise duplicates. Default: such messages are handled.
	RequireID bool
}
