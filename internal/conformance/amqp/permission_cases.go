package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const permissionsPage = "Access Control: How Permissions Work"

func permissionCases() []Case {
	cases := []Case{
		{"PublishNeedsWrite", permissionsPage, publishNeedsWrite},
		{"PublishToDefaultNeedsWrite", permissionsPage, publishToDefaultNeedsWrite},
		{"PublishToDefaultNotToQueue", permissionsPage, publishToDefaultNotToQueue},
		{"PublishBeforeMissing", permissionsPage, publishBeforeMissing},
		{"PassiveNeedsNothing", permissionsPage, passiveNeedsNothing},
		{"PatternsAreNotAnchored", permissionsPage, patternsNotAnchored},
		{"EmptyPatternIsNothing", permissionsPage, emptyPatternIsNothing},
		{"ServerNamedNeedsConfigure", permissionsPage, serverNamedNeedsConfigure},
		{"TopicNeedsNoMore", "Access Control: Topic Authorisation", topicNeedsNoMore},
		{"RefusalLeavesConnection", permissionsPage, refusalLeavesConnection},
		{"AckNeedsNothing", permissionsPage, ackNeedsNothing},
	}
	for _, row := range refusals() {
		cases = append(cases, Case{row.name, permissionsPage, func(_ *testing.T, b *Bench) {
			owner := b.Channel()
			owner.Queue("q", nil)
			owner.Exchange("x", "direct", nil)
			ch, user := b.ChannelAs(row.configure, row.write, row.read)
			b.Refused(row.do(ch), 403, "ACCESS_REFUSED - access to "+row.resource+" in vhost '{vhost}' refused for user '"+user+"'")
		}})
	}
	return cases
}

// refusal is something that a user with these permissions may not do. There are a queue q and a direct
// exchange x.
type refusal struct {
	name                   string
	configure, write, read string
	do                     func(ch *Channel) error
	resource               string
}

func refusals() []refusal {
	const no, yes = "^$", ".*"
	declare := func(name string, args amqp091.Table) func(ch *Channel) error {
		return func(ch *Channel) error { return queueSpec{args: args}.declare(ch, name) }
	}
	alternate := func(ch *Channel) error {
		return exchangeSpec{kind: "direct", args: amqp091.Table{"alternate-exchange": "x"}}.declare(ch, "new")
	}
	return []refusal{
		{"QueueDeclareNeedsConfigure", no, yes, yes, declare("new", nil), "queue 'new'"},
		{"QueueRedeclareNeedsConfigure", no, yes, yes, declare("q", nil), "queue 'q'"},
		{"QueueDeleteNeedsConfigure", no, yes, yes, func(ch *Channel) error {
			_, err := ch.QueueDelete("q", false, false, false)
			return err
		}, "queue 'q'"},
		{"ExchangeDeclareNeedsConfigure", no, yes, yes, func(ch *Channel) error {
			return exchangeSpec{kind: "direct"}.declare(ch, "new")
		}, "exchange 'new'"},
		{"ExchangeDeleteNeedsConfigure", no, yes, yes, func(ch *Channel) error { return ch.ExchangeDelete("x", false, false) }, "exchange 'x'"},
		{"QueueBindNeedsWriteOnQueue", yes, no, yes, func(ch *Channel) error { return ch.QueueBind("q", "k", "x", false, nil) }, "queue 'q'"},
		{"QueueBindNeedsReadOnExchange", yes, yes, no, func(ch *Channel) error { return ch.QueueBind("q", "k", "x", false, nil) }, "exchange 'x'"},
		{"QueueUnbindNeedsWriteOnQueue", yes, no, yes, func(ch *Channel) error { return ch.QueueUnbind("q", "k", "x", nil) }, "queue 'q'"},
		{"QueueUnbindNeedsReadOnExchange", yes, yes, no, func(ch *Channel) error { return ch.QueueUnbind("q", "k", "x", nil) }, "exchange 'x'"},
		{"ExchangeBindNeedsWriteOnDestination", yes, "^x$", yes, func(ch *Channel) error {
			return ch.ExchangeBind("amq.topic", "k", "x", false, nil)
		}, "exchange 'amq.topic'"},
		{"ExchangeBindNeedsReadOnSource", yes, yes, "^amq.topic$", func(ch *Channel) error {
			return ch.ExchangeBind("amq.topic", "k", "x", false, nil)
		}, "exchange 'x'"},
		{"GetNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, _, err := ch.Get("q", true)
			return err
		}, "queue 'q'"},
		{"ConsumeNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, err := ch.Consume("q", "", true, false, false, false, nil)
			return err
		}, "queue 'q'"},
		{"PurgeNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, err := ch.QueuePurge("q", false)
			return err
		}, "queue 'q'"},
		{"GetMissingNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, _, err := ch.Get("missing", true)
			return err
		}, "queue 'missing'"},
		{"DeadLetterNeedsReadOnQueue", yes, yes, no, declare("new", amqp091.Table{"x-dead-letter-exchange": "x"}), "queue 'new'"},
		{"DeadLetterNeedsWriteOnExchange", yes, no, yes, declare("new", amqp091.Table{"x-dead-letter-exchange": "x"}), "exchange 'x'"},
		{"AlternateNeedsReadOnExchange", yes, yes, no, alternate, "exchange 'new'"},
		{"AlternateNeedsWriteOnAlternate", yes, no, yes, alternate, "exchange 'x'"},
	}
}

func publishNeedsWrite(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs(".*", "^other$", ".*")
	ch.Send("amq.direct", "k", "refused")
	ch.WantClosed(403, "ACCESS_REFUSED - access to exchange 'amq.direct' in vhost '{vhost}' refused for user '"+user+"'")
}

func publishToDefaultNeedsWrite(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs(".*", "^q$", ".*")
	ch.Queue("q", nil)
	ch.Send("", "q", "refused")
	ch.WantClosed(403, "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '{vhost}' refused for user '"+user+"'")
}

func publishToDefaultNotToQueue(_ *testing.T, b *Bench) {
	b.Channel().Queue("q", nil)
	ch, _ := b.ChannelAs("^$", `^amq\.default$`, "^q$")
	ch.Send("", "q", "through")
	ch.WantBodies("q", "through")
}

// publishBeforeMissing shows that one who may not write does not learn whether an exchange exists.
func publishBeforeMissing(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs(".*", "^$", ".*")
	ch.Send("missing", "k", "refused")
	ch.WantClosed(403, "ACCESS_REFUSED - access to exchange 'missing' in vhost '{vhost}' refused for user '"+user+"'")
}

func passiveNeedsNothing(_ *testing.T, b *Bench) {
	b.Channel().Queue("q", nil)
	ch, _ := b.ChannelAs("^$", "^$", "^$")
	ch.WantCount("q", 0)
	ch.Sync()
}

func patternsNotAnchored(_ *testing.T, b *Bench) {
	ch, _ := b.ChannelAs("middle", "^$", "^$")
	ch.Queue("a middle z", nil)
}

func emptyPatternIsNothing(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs("", ".*", ".*")
	b.Refused(queueSpec{}.declare(ch, "q"), 403, "ACCESS_REFUSED - access to queue 'q' in vhost '{vhost}' refused for user '"+user+"'")
}

func serverNamedNeedsConfigure(_ *testing.T, b *Bench) {
	allowed, _ := b.ChannelAs(`^amq\.gen`, "^$", "^$")
	allowed.Queue("", nil)
	refused, user := b.ChannelAs("^mine", "^$", "^$")
	b.Refused(queueSpec{}.declare(refused, ""), 403, "ACCESS_REFUSED - access to queue 'amq.gen-…' in vhost '"+b.Name+"' refused for user '"+user+"'")
}

func topicNeedsNoMore(_ *testing.T, b *Bench) {
	ch, _ := b.ChannelAs(".*", ".*", ".*")
	ch.Queue("q", nil)
	ch.Bind("q", "a.#", "amq.topic", nil)
	ch.Send("amq.topic", "a.b", "through")
	ch.WantBodies("q", "through")
}

func refusalLeavesConnection(_ *testing.T, b *Bench) {
	user, password := b.Target.AddUser(b.t, b.Name, "^mine$", "^$", "^mine$")
	conn := b.ConnectAs(user, password)
	b.Refused(queueSpec{}.declare(conn.Channel(), "other"), 403, "ACCESS_REFUSED - access to queue 'other' in vhost '{vhost}' refused for user '"+user+"'")
	conn.Channel().Queue("mine", nil)
}

func ackNeedsNothing(_ *testing.T, b *Bench) {
	owner := b.Channel()
	owner.Queue("q", nil)
	owner.Confirming().Send("", "q", "once")
	ch, _ := b.ChannelAs("^$", "^$", "^q$")
	d, _, err := ch.Get("q", false)
	b.Must(err)
	b.Must(d.Ack(false))
	ch.WantBodies("q")
}
