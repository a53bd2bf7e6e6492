package broker

import "github.com/rehop/rehop/broker/internal/node"

// Compat is a release of RabbitMQ, whose rules a Server follows where releases differ. Until 4.0:
//
//   - An x-death header that a client sends counts as deaths of the message.
//   - A dead letter loses its CC header if its queue has a dead-letter routing key.
//   - A consumer can have x-cancel-on-ha-failover.
//   - Policies can configure mirroring, and a policy decides when a quorum queue expires; later the lower of argument
//     and policy does.
//   - A quorum queue has no delivery limit unless it is given one, and -1 is the same as 0. Later 20 is the default,
//     and -1 means none.
//   - Quorum queues have no priorities. 4.0 has two levels; 4.3 has 32.
//   - basic.get from a quorum queue adds x-delivery-count: 0.
//   - Headers arrive as they were sent. Later they are sorted, and of several with one name the first arrives.
//   - A headers exchange takes 1 and 1.0 for the same.
//   - A delivery mode other than 1 and 2 is refused.
//   - An unknown exchange type closes the connection; later the channel.
//   - Refusals do not say which permission is lacking.
//   - A virtual host's queue limit is checked before the arguments of a queue.
//   - A protocol header of another protocol is answered with that of AMQP 0-9-1; later with that of AMQP 1.0.
//
// Until 3.13 each death reverses the older entries of x-death, if there are two or more. From 3.13 on dead letters
// have x-last-death-* headers, and a policy can apply to queues of one type. From 4.0 on a message that is
// dead-lettered from one quorum queue to another keeps the number of its failed deliveries. From 4.3 on:
//
//   - Classic queues count failed deliveries, too.
//   - basic.nack is no failed delivery; basic.reject and a lost consumer are. Only failures count for a delivery
//     limit. x-acquired-count counts all returns.
//   - What returns to a quorum queue without a limit is delivered first, too.
//   - basic.qos with global set is handled as if it were not set.
//   - Queues that are neither durable nor exclusive, and x-queue-version 1, are refused; x-queue-mode may be anything.
//   - A passive declaration needs a permission.
//   - The smallest frame that a client may choose has 8,192 bytes.
//   - The key of a binding to a topic exchange has at most two #.
//   - A mandatory message for a direct reply is not returned.
//   - x-max-length-bytes of a quorum queue counts properties, too.
//   - A consumer timeout applies to quorum queues only: it returns what was unacked for too long, and cancels the
//     consumer.
//   - Quorum queues can delay what returns, by x-delayed-retry-* or a policy.
type Compat int

// The releases between which rules have changed.
const (
	RabbitMQ310 = Compat(node.RabbitMQ310)
	RabbitMQ313 = Compat(node.RabbitMQ313)
	RabbitMQ40  = Compat(node.RabbitMQ40)
	RabbitMQ43  = Compat(node.RabbitMQ43)
)

// DefaultCompat is the release that a Server follows unless Compat is set.
const DefaultCompat = RabbitMQ43

// String returns the name of the release, such as 4.3.
func (c Compat) String() string { return node.Compat(c).String() }

// Release returns the version that clients are shown, such as 4.3.6.
func (c Compat) Release() string { return node.Compat(c).Release() }

// ParseCompat parses the name of a release, such as 4.3.
func ParseCompat(name string) (Compat, error) {
	c, err := node.ParseCompat(name)
	return Compat(c), err
}
