package broker

import "github.com/rehop/rehop/broker/internal/node"

// Compat is a release of RabbitMQ whose rules a Server follows where releases differ.
//
// Before 4.0:
//
//   - An x-death header that a client sends counts as deaths of the message.
//   - A dead letter loses its CC header if its queue has a dead-letter routing key.
//   - A consumer can have x-cancel-on-ha-failover.
//   - Policies can configure mirroring. The policy decides when a quorum queue expires; later the lower value of
//     argument and policy does.
//   - A quorum queue has no delivery limit by default, and -1 is the same as 0. Later the default is 20, and -1 means
//     no limit.
//   - Quorum queues have no priorities. 4.0 has two levels, and 4.3 has 32.
//   - basic.get from a quorum queue adds x-delivery-count: 0.
//   - Headers arrive unchanged. Later they are sorted, and of several headers with one name only the first arrives.
//   - A headers exchange matches 1 with 1.0.
//   - A delivery mode other than 1 and 2 is refused.
//   - An unknown exchange type closes the connection; later it closes the channel.
//   - A refusal does not name the missing permission.
//   - The queue limit of a virtual host is checked before the arguments of a queue.
//   - The text of an error is cut to 255 bytes. Later it is cut to 255 characters; if these are more than 255 bytes,
//     the connection is closed with 541, and no text.
//   - An unknown x-queue-master-locator closes the connection with 541.
//   - The broker answers the protocol header of another protocol with that of AMQP 0-9-1; later with that of AMQP 1.0.
//
// Before 3.13, each death reverses the older entries of x-death, if there are two or more. From 3.13 on, dead letters
// have x-last-death-* headers, and a policy can apply to queues of one type. From 4.0 on, a message that is
// dead-lettered from one quorum queue to another keeps the number of its failed deliveries.
//
// From 4.3 on:
//
//   - Classic queues also count failed deliveries.
//   - basic.reject and a lost consumer are failed deliveries; basic.nack is not. Only failures count for a delivery
//     limit. x-acquired-count counts all returns.
//   - A quorum queue without a limit also delivers returned messages first.
//   - basic.qos ignores global.
//   - Queues that are neither durable nor exclusive are refused, and so are x-queue-version 1 and
//     x-queue-master-locator. x-queue-mode can have any value.
//   - A passive declaration needs a permission.
//   - The smallest frame that a client can choose has 8,192 bytes.
//   - The key of a binding to a topic exchange can have at most two #.
//   - A mandatory message that is a direct reply is not returned.
//   - x-max-length-bytes of a quorum queue also counts properties.
//   - A consumer timeout applies only to quorum queues. It returns the overdue messages to the queue and cancels the
//     consumer.
//   - Quorum queues can delay returned messages, by x-delayed-retry-* or a policy.
type Compat int

// The releases that changed rules. Each stands for all releases up to the next one.
const (
	RabbitMQ310 Compat = 1 // 3.10
	RabbitMQ313 Compat = 2 // 3.13
	RabbitMQ40  Compat = 3 // 4.0
	RabbitMQ43  Compat = 4 // 4.3
)

// DefaultCompat is the release of a Server without Compat.
const DefaultCompat = RabbitMQ43

// String returns the name of the release, such as 4.3.
func (c Compat) String() string { return node.Compat(c).String() }

// Release returns the full version that clients see, such as 4.3.6.
func (c Compat) Release() string { return node.Compat(c).Release() }

// ParseCompat parses the name of a release, such as 4.3. It returns an error for other names than those of the constants.
func ParseCompat(name string) (Compat, error) {
	c, err := node.ParseCompat(name)
	return Compat(c), err
}
