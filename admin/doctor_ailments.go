package admin

import "slices"

// Ailment is something that Doctor knows to look for.
type Ailment struct {
	ID       string   `json:"id"`       // stays the same from version to version
	Severity Severity `json:"severity"` // the highest that it can have
	Why      string   `json:"why"`      // why it matters
}

// Ailments are all that Doctor knows to look for.
func Ailments() []Ailment { return slices.Clone(ailments) }

var ailments = []Ailment{
	{"broker.version", Critical, "before 3.10 quorum queues know no time to live and no at-least-once dead-lettering: retries cannot wait, or get lost when a node dies"},
	{"broker.support", Warning, "a release series that is out of support gets no more fixes, also not for what loses messages or lets people in"},
	{"broker.version-4", Info, "RabbitMQ 4 drops a message of a quorum queue after 20 deliveries unless its limit says otherwise, does not read an x-death that a client sends, and has no mirrored classic queues"},
	{"broker.erlang", Warning, "RabbitMQ runs only on some versions of Erlang, and old ones get no security fixes"},
	{"broker.feature-flag", Critical, "without its feature flag a kind of queue cannot be declared, and a broker whose flags are not all enabled refuses the next upgrade"},
	{"broker.deprecated-feature", Warning, "later releases of RabbitMQ refuse deprecated features by default, and then remove them"},
	{"broker.ram-node", Warning, "RabbitMQ 4.3 has no RAM nodes, and a cluster that has one cannot be upgraded to it"},
	{"broker.alarm", Critical, "while an alarm is raised, the whole cluster takes no message from anybody"},
	{"broker.node-down", Critical, "quorum queues go without majority, and classic queues of the node cannot be reached"},
	{"broker.partition", Critical, "the nodes have lost each other: what one side takes the other does not know"},
	{"broker.unroutable", Warning, "a message that no queue is bound for is gone, unless its publisher asks to get it back or the exchange has an alternate one"},
	{"broker.churn", Warning, "a connection or channel for each message costs more than the message, and can bring the broker down"},
	{"broker.dead-letter-timeout", Info, "after a leader was lost, at-least-once dead-lettering can stand still for as long as dead_letter_worker_publisher_confirm_timeout says, 180 s unless set"},

	{"policy.clash", Warning, "only one policy applies to a queue: what the others say has no effect there"},
	{"policy.own", Critical, "rehop's queues keep messages for as long as they were told to; a policy that changes this loses, delays or jams what waits and rests"},
	{"policy.full", Critical, "what a full queue refuses stays in the shared queue where it waited, and holds up the retries of all queues"},
	{"policy.mirrors", Warning, "RabbitMQ 4 has no mirrored classic queues: it ignores such settings of a policy that exists, refuses to set them, and the queues have one copy"},
	{"policy.unused", Info, "a policy that matches nothing is often a typing error in its pattern"},

	{"queue.no-delivery-limit", Warning, "a message that kills its consumer comes back for ever, before all others"},
	{"queue.limit-drops", Warning, "a message that was given back too often is dropped for good"},
	{"queue.letters-limit", Critical, "from RabbitMQ 4.0 on a quorum queue without a limit of its own drops a message after 20 deliveries; from 4.3 on a dead letter keeps the count of the queue in which it died, so that one more delivery can be the last"},
	{"queue.failed-limit", Warning, "each look at a message counts as a delivery, and after the limit it is dropped"},
	{"queue.lossy-dead-letters", Warning, "a classic queue dead-letters without waiting for a confirm, and a quorum queue too unless told otherwise: what is on its way when a node dies is lost"},
	{"queue.strategy-ignored", Warning, "at-least-once dead-lettering needs x-overflow reject-publish; without it RabbitMQ falls back to at-most-once, and says so only in its log"},
	{"queue.dead-letter-nowhere", Critical, "dead letters that have nowhere to go are dropped, or, with at-least-once, stay and jam the queue"},
	{"queue.dead-letter-cycle", Critical, "a message that comes back to a queue in which it has died, and was not rejected on the way, is dropped, or, with at-least-once, stays and jams the queue"},
	{"queue.ttl-drops", Warning, "what expires is dropped without a word"},
	{"queue.length-drops", Warning, "what exceeds the limit is dropped without a word, the oldest first"},
	{"queue.transient", Warning, "a queue that is not durable is gone, with its messages, when its node restarts; RabbitMQ 4.3 refuses to declare one"},
	{"queue.old-arguments", Info, "later versions of RabbitMQ ignore these arguments, or refuse to declare a queue with them"},
	{"queue.not-replicated", Warning, "a classic queue is on one node: while that is down, what waits or rests there cannot be reached, and if its disk is lost, it is lost"},
	{"queue.few-members", Warning, "a quorum queue survives the loss of less than half of its members"},
	{"queue.no-majority", Critical, "without most of its members a quorum queue neither takes nor gives messages"},
	{"queue.member-down", Warning, "one more member that fails, and the queue has no majority"},
	{"queue.no-priorities", Critical, "before RabbitMQ 4.0 quorum queues have no priorities: the broker declares the queue, and the subscription is refused"},
	{"queue.unconsumed", Warning, "messages come and nobody takes them"},
	{"queue.expires", Critical, "the broker deletes a queue with x-expires, and all that it holds, when it had no consumer for that long"},
	{"queue.unacked", Warning, "what consumers hold fills the broker's memory, is not shared with other consumers, and is delivered again when they die"},
	{"queue.failed", Warning, "a message that rests in a failed queue has not been handled, and these queues grow without bound"},
	{"queue.orphans", Warning, "these messages waited for a queue that was gone when they returned"},
	{"queue.unrouted", Warning, "these messages were published with a key for which no queue is bound"},
	{"queue.stalled", Critical, "messages that should have returned are standing still"},
	{"queue.recovered", Warning, "the repair of an embedded broker found these messages, and not the definition of their queue: they are kept, and nobody handles them"},
	{"queue.migration", Warning, "a migration was not finished, and messages of the queue are kept elsewhere"},

	{"layout.x-death", Warning, "RabbitMQ 4 ignores an x-death header that a client sends: programs that count failures in it, and rehop beside them, do not see each other's failures, and a message has more attempts than it should, or retries without end"},

	{"exchange.no-alternate", Info, "what is published with a key that no queue is bound for is dropped, unless its publisher asks to get it back"},
	{"exchange.alternate-missing", Warning, "the alternate exchange does not exist, so what it is for is dropped"},

	{"consumer.timeout", Warning, "the broker takes a message back that a consumer holds for longer than consumer_timeout, 30 minutes unless set, closes the channel, and delivers the message again; from RabbitMQ 4.3 on this holds for quorum queues only"},
	{"consumer.auto-ack", Warning, "the broker forgets a message as soon as it has sent it: what the consumer has not handled when it dies is lost"},
	{"consumer.unlimited", Warning, "the broker sends such a consumer all it has at once: its memory fills, and other consumers get nothing"},
	{"channel.global-prefetch", Warning, "quorum queues refuse a prefetch that is shared by the consumers of a channel, and RabbitMQ 4.3 takes it for one of each consumer"},

	{"user.guest", Critical, "everybody knows this user's first password"},
	{"user.administrator", Warning, "who gets hold of an application's password can change users, policies and virtual hosts"},
	{"user.wide", Warning, "an application that may configure everything may delete everything"},

	{"doctor.blind", Info, "what cannot be seen was not checked"},
}
