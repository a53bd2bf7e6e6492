package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/topology"
)

// Severity is how bad a finding is.
type Severity string

const (
	// Info is worth knowing.
	Info Severity = "info"
	// Warning can lose or delay messages when something else fails.
	Warning Severity = "warning"
	// Critical loses or delays messages now, or soon.
	Critical Severity = "critical"
)

// rank sorts the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// Above reports whether s is worse than other.
func (s Severity) Above(other Severity) bool { return s.rank() < other.rank() }

// Finding is a setting or state of the broker that can lose or delay messages.
type Finding struct {
	ID       string          `json:"id"` // see Checks
	Severity Severity        `json:"severity"`
	Object   topology.Object `json:"object"` // a queue, an exchange, a policy, a user, a node, a channel, a connection, a consumer, a virtual host, or the broker
	Found    string          `json:"found"`
	Why      string          `json:"why"` // it matters
	Fix      string          `json:"fix"` // a command or a setting
}

// String is what was found, why it matters and what to do, in three lines.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)\n    %s\n    fix: %s\n", f.Severity, f.Object, f.Found, f.ID, f.Why, f.Fix)
}

// Findings are the findings of Doctor, the worst first.
type Findings []Finding

// String is all findings, or "nothing found".
func (all Findings) String() string {
	var s strings.Builder
	for _, f := range all {
		s.WriteString(f.String())
	}
	return cmp.Or(s.String(), "nothing found\n")
}

// Above returns the findings that are worse than a severity.
func (all Findings) Above(s Severity) Findings {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return !f.Severity.Above(s) })
}

func (all Findings) sort() {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Found, b.Found))
	})
}

// Check is something that Doctor checks.
type Check struct {
	ID       string   `json:"id"`       // stays the same from version to version
	Severity Severity `json:"severity"` // of its findings, at most
	Why      string   `json:"why"`      // a finding matters
}

// Checks returns everything that Doctor checks.
func Checks() []Check { return slices.Clone(checks) }

var checks = []Check{
	{"broker.version", Critical, "before 3.10 quorum queues have no message TTL and no at-least-once dead-lettering: retries cannot wait, or are lost when a node dies"},
	{"broker.support", Warning, "a release series that is out of support gets no more fixes, not even for bugs that lose messages or for security"},
	{"broker.version-4", Info, "RabbitMQ 4 drops a message of a quorum queue after 20 deliveries unless a delivery limit is set, does not read an x-death that a client sends, and has no mirrored classic queues"},
	{"broker.erlang", Warning, "RabbitMQ runs only on some versions of Erlang, and old ones get no security fixes"},
	{"broker.feature-flag", Critical, "without its feature flag a kind of queue cannot be declared, and a broker whose flags are not all enabled refuses the next upgrade"},
	{"broker.deprecated-feature", Warning, "later releases of RabbitMQ refuse deprecated features by default, and then remove them"},
	{"broker.ram-node", Warning, "RabbitMQ 4.3 has no RAM nodes, and a cluster that has one cannot be upgraded to it"},
	{"broker.alarm", Critical, "while there is an alarm, the whole cluster accepts no messages"},
	{"broker.node-down", Critical, "quorum queues can lose their majority, and classic queues of the node cannot be reached"},
	{"broker.partition", Critical, "the nodes have lost each other: messages that one side accepts are unknown to the other"},
	{"broker.unroutable", Warning, "an unroutable message is dropped, unless it is published as mandatory or the exchange has an alternate exchange"},
	{"broker.churn", Warning, "a connection or channel for each message costs more than the message, and can overload the broker"},
	{"broker.dead-letter-timeout", Info, "after a leader was lost, at-least-once dead-lettering can stop for the time of dead_letter_worker_publisher_confirm_timeout, 180 s by default"},

	{"policy.clash", Warning, "only one policy applies to a queue: the others have no effect there"},
	{"policy.own", Critical, "a policy that changes rehop's own queues can lose, delay or block waiting and failed messages"},
	{"policy.full", Critical, "a retry that a full queue rejects stays in the shared delay queue, and blocks the retries of all queues"},
	{"policy.mirrors", Warning, "RabbitMQ 4 has no mirrored classic queues: it ignores these keys in existing policies, refuses to set them, and the queues have one copy"},
	{"policy.unused", Info, "a policy that matches nothing often has a mistake in its pattern"},

	{"queue.no-delivery-limit", Warning, "a message that crashes its consumer is redelivered without end, before all others"},
	{"queue.limit-drops", Warning, "a message that was returned too often is dropped"},
	{"queue.letters-limit", Critical, "from RabbitMQ 4.0 on a quorum queue without its own limit drops a message after 20 deliveries; from 4.3 on a dead letter keeps the count of the queue in which it died, so that one more delivery can be the last"},
	{"queue.failed-limit", Warning, "each time a failed message is listed counts as a delivery, and after the limit it is dropped"},
	{"queue.lossy-dead-letters", Warning, "a classic queue dead-letters without waiting for a confirm, and so does a quorum queue unless it is set to at-least-once: what is on its way when a node dies is lost"},
	{"queue.strategy-ignored", Warning, "at-least-once dead-lettering needs x-overflow reject-publish; without it RabbitMQ uses at-most-once, and reports that only in its log"},
	{"queue.dead-letter-nowhere", Critical, "dead letters that are unroutable are dropped, or, with at-least-once, stay and block the queue"},
	{"queue.dead-letter-cycle", Critical, "a message that returns to a queue in which it has died, and was not rejected on the way, is dropped, or, with at-least-once, stays and blocks the queue"},
	{"queue.ttl-drops", Warning, "expired messages are dropped without notice"},
	{"queue.length-drops", Warning, "messages above the limit are dropped without notice, the oldest first"},
	{"queue.transient", Warning, "a queue that is not durable is lost with its messages when its node restarts; RabbitMQ 4.3 refuses to declare one"},
	{"queue.old-arguments", Info, "later versions of RabbitMQ ignore these arguments, or refuse to declare a queue with them"},
	{"queue.not-replicated", Warning, "a classic queue is on one node: while the node is down, its waiting and failed messages cannot be reached, and if the disk is lost, they are lost"},
	{"queue.few-members", Warning, "a quorum queue survives the loss of less than half of its members"},
	{"queue.no-majority", Critical, "without most of its members a quorum queue neither accepts nor delivers messages"},
	{"queue.member-down", Warning, "if one more member fails, the queue has no majority"},
	{"queue.no-priorities", Critical, "before RabbitMQ 4.0 quorum queues have no priorities: the broker declares the queue, and refuses the subscription"},
	{"queue.unconsumed", Warning, "messages arrive and nobody consumes them"},
	{"queue.expires", Critical, "the broker deletes a queue with x-expires, and all its messages, when it had no consumer for that time"},
	{"queue.unacked", Warning, "unacked messages fill the broker's memory, are not shared with other consumers, and are redelivered when their consumers die"},
	{"queue.failed", Warning, "a message in a failed queue has not been handled, and failed queues grow without limit"},
	{"queue.orphans", Warning, "the queue of these messages was deleted while they waited"},
	{"queue.unrouted", Warning, "these messages were published with a key for which no queue is bound"},
	{"queue.stalled", Critical, "messages that should have returned to their queue do not move"},
	{"queue.recovered", Warning, "the repair of an embedded broker found these messages, but not the definition of their queue: they are kept, and nobody handles them"},
	{"queue.migration", Warning, "a migration was not finished, and messages of the queue are kept in another queue"},

	{"layout.x-death", Warning, "RabbitMQ 4 ignores an x-death header that a client sends: rehop and other programs that count failures in it do not see each other's failures, and a message has more attempts than it should, or is retried without end"},
	{"layout.rejections", Warning, "from RabbitMQ 4.3 on, rehop and other programs that reject messages of a classic queue, so that the broker counts them, do not see all of each other's failures, and a message has more attempts than it should"},

	{"exchange.no-alternate", Info, "unroutable messages are dropped, unless they are published as mandatory"},
	{"exchange.alternate-missing", Warning, "the alternate exchange does not exist, so unroutable messages are dropped"},

	{"consumer.timeout", Warning, "the broker requeues a message that is unacked for longer than consumer_timeout, 30 minutes by default, closes the channel, and delivers the message again; from RabbitMQ 4.3 on only for quorum queues"},
	{"consumer.auto-ack", Warning, "the broker removes a message as soon as it has sent it: what the consumer has not handled when it dies is lost"},
	{"consumer.unlimited", Warning, "the broker sends such a consumer all messages at once: its memory fills, and other consumers get nothing"},
	{"channel.global-prefetch", Warning, "quorum queues refuse a prefetch that the consumers of a channel share, and RabbitMQ 4.3 applies it to each consumer"},

	{"user.guest", Critical, "everybody knows this user's default password"},
	{"user.administrator", Warning, "whoever gets an application's password can change users, policies and virtual hosts"},
	{"user.wide", Warning, "an application that may configure everything may delete everything"},

	{"doctor.blind", Info, "what the user may not see was not checked"},
}
