package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const policiesPage = "Policies"

func policiesCases() []Case {
	return []Case{
		{"NewQueue", policiesPage, policyNewQueue},
		{"ExistingQueue", policiesPage, policyExistingQueue},
		{"OtherQueue", policiesPage, policyOtherQueue},
		{"Changed", policiesPage, policyChanged},
		{"Removed", policiesPage, policyRemoved},
		{"HighestPriority", policiesPage + ": Policy Priorities", policyHighestPriority},
		{"NotMerged", policiesPage + ": Combining Policy Definitions", policyNotMerged},
		{"NextAfterRemoval", policiesPage + ": Policy Priorities", policyNextAfterRemoval},
		{"OnlyExchanges", policiesPage + ": How Policies Work", policyOnlyExchanges},
		{"QueuesAndExchanges", policiesPage + ": How Policies Work", policyForAll},
		{"AlternateExchange", "Alternate Exchanges: Configuration Using a Policy", policyAlternateExchange},
		{"AlternateExchangeArgumentWins", "Alternate Exchanges: Configuration Using a Policy", policyAlternateExchangeArgument},
		{"DeadLetterExchange", "Dead Letter Exchanges: Configuration Using a Policy", policyDeadLetterExchange},
		{"DeadLetterArgumentWins", "Dead Letter Exchanges: Configuration Using a Policy", policyDeadLetterArgument},
		{"DeadLetterForOlderMessages", "Dead Letter Exchanges: Configuration Using a Policy", policyDeadLetterForOlder},
		{"MessageTTL", "Time-To-Live: Per-Queue Message TTL, by policy", policyMessageTTL},
		{"MessageTTLLowerWins", "Time-To-Live: Per-Queue Message TTL, by policy", policyMessageTTLLowerWins},
		{"QueueExpiry", "Time-To-Live: Queue TTL, by policy", policyQueueExpiry},
		{"NotInDeclaredArguments", policiesPage + ": How Policies Work", policyNotInArguments},
	}
}

// SetPolicy makes or changes a policy for queues.
func (b *Bench) SetPolicy(name, pattern string, priority int, definition map[string]any) {
	b.t.Helper()
	b.Target.SetPolicy(b.t, b.Name, Policy{Name: name, Pattern: pattern, ApplyTo: "queues", Priority: priority, Definition: definition})
}

// limited is a policy's definition.
func limited(n int) map[string]any { return map[string]any{"max-length": n} }

// wantLimit checks how many of four messages a queue keeps.
func wantLimit(ch *Channel, queue string, want int) {
	ch.b.t.Helper()
	bodies := []string{"a", "b", "c", "d"}
	ch.SendAll(queue, bodies...)
	ch.WantBodies(queue, bodies[len(bodies)-want:]...)
}

func policyNewQueue(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q", 0, limited(2))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q1", nil), 2)
	wantLimit(ch, ch.Queue("q2", nil), 2)
}

func policyExistingQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 4)
	b.SetPolicy("limit", "^q$", 0, limited(2))
	wantLimit(ch, "q", 2)
}

func policyOtherQueue(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q$", 0, limited(2))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("qq", nil), 4)
}

func policyChanged(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q$", 0, limited(2))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 2)
	b.SetPolicy("limit", "^q$", 0, limited(3))
	wantLimit(ch, "q", 3)
}

func policyRemoved(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q$", 0, limited(2))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 2)
	b.Target.DeletePolicy(b.t, b.Name, "limit")
	wantLimit(ch, "q", 4)
}

func policyHighestPriority(_ *testing.T, b *Bench) {
	b.SetPolicy("low", "^q$", 1, limited(1))
	b.SetPolicy("high", "^q$", 9, limited(3))
	b.SetPolicy("middle", "^q$", 5, limited(2))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 3)
}

func policyNotMerged(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q$", 1, limited(2))
	b.SetPolicy("overflow", "^q$", 2, map[string]any{"overflow": "reject-publish"})
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 4)
}

func policyNextAfterRemoval(_ *testing.T, b *Bench) {
	b.SetPolicy("low", "^q$", 1, limited(1))
	b.SetPolicy("high", "^q$", 2, limited(3))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 3)
	b.Target.DeletePolicy(b.t, b.Name, "high")
	wantLimit(ch, "q", 1)
}

func policyOnlyExchanges(_ *testing.T, b *Bench) {
	b.Target.SetPolicy(b.t, b.Name, Policy{Name: "limit", Pattern: ".*", ApplyTo: "exchanges", Definition: map[string]any{"alternate-exchange": "amq.fanout"}})
	b.SetPolicy("lower", ".*", -1, limited(2))
	ch := b.Channel()
	wantLimit(ch, ch.Queue("q", nil), 2)
}

func policyForAll(_ *testing.T, b *Bench) {
	b.Target.SetPolicy(b.t, b.Name, Policy{Name: "both", Pattern: "^both$", ApplyTo: "all", Definition: map[string]any{
		"max-length": 2, "alternate-exchange": "amq.fanout",
	}})
	ch := b.Channel()
	ch.Bind(ch.Queue("both", nil), "", "amq.fanout", nil)
	wantLimit(ch, "both", 2)
	ch.Exchange("both", "direct", nil)
	ch.Send("both", "nobody", "stray")
	ch.WantBodies("both", "stray")
}

// setAlternate makes the fanout exchange the alternate of exchange x by a policy.
func setAlternate(b *Bench) {
	b.Target.SetPolicy(b.t, b.Name, Policy{
		Name: "alternate", Pattern: "^x$", ApplyTo: "exchanges", Definition: map[string]any{"alternate-exchange": "amq.fanout"},
	})
}

func policyAlternateExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", nil)
	ch.Bind(ch.Queue("stray", nil), "", "amq.fanout", nil)
	ch.Send("x", "nobody", "before")
	ch.WantBodies("stray")
	setAlternate(b)
	ch.Send("x", "nobody", "during")
	ch.WantBodies("stray", "during")
	b.Target.DeletePolicy(b.t, b.Name, "alternate")
	ch.Send("x", "nobody", "after")
	ch.WantBodies("stray")
}

func policyAlternateExchangeArgument(_ *testing.T, b *Bench) {
	setAlternate(b)
	ch := b.Channel()
	ch.Exchange("x", "direct", amqp091.Table{"alternate-exchange": "amq.topic"})
	ch.Bind(ch.Queue("policy", nil), "", "amq.fanout", nil)
	ch.Bind(ch.Queue("argument", nil), "#", "amq.topic", nil)
	ch.Send("x", "nobody", "a")
	ch.WantBodies("argument", "a")
	ch.WantBodies("policy")
}

// deadLettering is a policy's definition that sends dead letters to a queue.
func deadLettering(queue string) map[string]any {
	return map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": queue}
}

func policyDeadLetterExchange(_ *testing.T, b *Bench) {
	b.SetPolicy("burial", "^"+source+"$", 0, deadLettering(dead))
	ch := b.Channel()
	ch.Queue(dead, nil)
	ch.Queue(source, nil)
	ch.SendAll(source, "a")
	reject(ch)
	b.WantDeaths(b.Arrival(dead), death{1, "rejected", source, "", []string{source}, ""})
}

func policyDeadLetterArgument(_ *testing.T, b *Bench) {
	b.SetPolicy("burial", "^"+source+"$", 0, deadLettering("policy"))
	ch := b.Channel()
	ch.Queue("policy", nil)
	ch.Queue(dead, nil)
	ch.Queue(source, deadTo(dead))
	ch.SendAll(source, "a")
	reject(ch)
	b.WantArrivals(dead, "a")
	b.Channel().WantBodies("policy")
}

func policyDeadLetterForOlder(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue(dead, nil)
	ch.Queue(source, nil)
	ch.SendAll(source, "a")
	b.SetPolicy("burial", "^"+source+"$", 0, deadLettering(dead))
	reject(ch)
	b.WantArrivals(dead, "a")
}

func policyMessageTTL(_ *testing.T, b *Bench) {
	b.SetPolicy("ttl", "^"+source+"$", 0, map[string]any{"message-ttl": short.Milliseconds()})
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendAll(source, "a")
	b.WantDeaths(b.Arrival(dead), death{1, "expired", source, "", []string{source}, ""})
}

func policyMessageTTLLowerWins(_ *testing.T, b *Bench) {
	b.SetPolicy("ttl", "^"+source+"$", 0, map[string]any{"message-ttl": short.Milliseconds()})
	ch := b.Channel()
	ch.DeadLettering(ttl(long))
	ch.SendAll(source, "a")
	b.WantArrivals(dead, "a")
}

func policyQueueExpiry(_ *testing.T, b *Bench) {
	b.Channel().Queue("q", nil)
	b.SetPolicy("expiry", "^q$", 0, map[string]any{"expires": expiry})
	b.gone("q")
}

func policyNotInArguments(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q$", 0, limited(2))
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Queue("q", nil)
	_, err := ch.QueueDeclare("q", true, false, false, false, maxLength(2))
	b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '{vhost}': "+
		"received the value '2' of type 'signedint' but current is none")
}
