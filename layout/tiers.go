package layout

import "time"

// Tiers is the layout of fixed delay queues, from 30 seconds to a day, that all programs share: a
// message waits in the one with the next longer delay. The TTL is on the queue, so no message waits
// behind a slower one.
//
// A tier is a fanout exchange and a queue of the same name, as in delay.5m. A message is published to
// the exchange with the name of its own queue as routing key, and after its wait goes to the direct
// exchange delay.return with that key. The number of its failures is the sum of its deaths in the
// tiers. Messages that have used all attempts are in the native failed queue, QUEUE.failed.
type Tiers struct {
	// Name is the prefix of the names of the exchanges and queues. Set it to the one that exists.
	// Default: delay.
	Name string
	// Tiers are the delays, in any order. Set them to those that exist. Default: 30 s, 1 m, 5 m, 30 m,
	// 1 h, 3 h, 6 h, 12 h, 24 h.
	Tiers []time.Duration
	// Type is the type of the delay queues and of the failed queue. Set Classic if the delay queues
	// exist as classic queues. Default: Quorum, which dead-letter at least once.
	Type QueueType
	// Waits are the waits between attempts of subscriptions that set no Retry of their own. Set them
	// to what the other programs use. Default: 30 s, 5 m, 30 m.
	Waits []time.Duration
}
