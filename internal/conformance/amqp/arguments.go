package amqp

import (
	"maps"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// with adds arguments to others.
func with(args, more amqp091.Table) amqp091.Table {
	all := amqp091.Table{}
	maps.Copy(all, args)
	maps.Copy(all, more)
	return all
}

// quorum are the arguments of a quorum queue.
func quorum(args amqp091.Table) amqp091.Table {
	return with(amqp091.Table{"x-queue-type": "quorum"}, args)
}

// surely are the arguments of a queue that keeps its dead letters until they have arrived.
func surely(args amqp091.Table) amqp091.Table {
	return quorum(with(amqp091.Table{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}, args))
}

// ttl are the arguments of a queue whose messages live for a time.
func ttl(d time.Duration) amqp091.Table { return amqp091.Table{"x-message-ttl": d.Milliseconds()} }

// maxLength are the arguments of a queue that drops its oldest message for one too many.
func maxLength(n int) amqp091.Table { return amqp091.Table{"x-max-length": n} }

// refusing are the arguments of a queue that refuses a message too many.
func refusing(n int) amqp091.Table {
	return with(maxLength(n), amqp091.Table{"x-overflow": "reject-publish"})
}

// singleActive are the arguments of a queue that delivers to one of its consumers at a time.
func singleActive() amqp091.Table { return amqp091.Table{"x-single-active-consumer": true} }

// maxPriority are the arguments of a queue with priorities.
func maxPriority(p int) amqp091.Table { return amqp091.Table{"x-max-priority": p} }

// deliveryLimit are the arguments of a quorum queue that gives up a message after some redeliveries.
func deliveryLimit(n int) amqp091.Table { return quorum(amqp091.Table{"x-delivery-limit": n}) }

// deadTo are the arguments of a queue whose dead letters go to another queue by the default exchange.
func deadTo(queue string) amqp091.Table {
	return amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
}

// priority are the arguments of a consumer that is served before those with a lower one.
func priority(p int32) amqp091.Table { return amqp091.Table{"x-priority": p} }
