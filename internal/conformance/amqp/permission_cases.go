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
		{"PassiveNeedsAny", permissionsPage, passiveNeedsAny},
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
			b.Refused(row.do(ch), 403, denied(b, row.lacks, row.resource, user))
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
	lacks, resource        string
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
		{"QueueDeclareNeedsConfigure", no, yes, yes, declare("new", nil), "configure", "queue 'new'"},
		{"QueueRedeclareNeedsConfigure", no, yes, yes, declare("q", nil), "configure", "queue 'q'"},
		{"QueueDeleteNeedsConfigure", no, yes, yes, func(ch *Channel) error {
			_, err := ch.QueueDelete("q", false, false, false)
			return err
		}, "configure", "queue 'q'"},
		{"ExchangeDeclareNeedsConfigure", no, yes, yes, func(ch *Channel) error {
			return exchangeSpec{kind: "direct"}.declare(ch, "new")
		}, "configure", "exchange 'new'"},
		{"ExchangeDeleteNeedsConfigure", no, yes, yes, func(ch *Channel) error { return ch.ExchangeDelete("x", false, false) }, "configure", "exchange 'x'"},
		{"QueueBindNeedsWriteOnQueue", yes, no, yes, func(ch *Channel) error { return ch.QueueBind("q", "k", "x", false, nil) }, "write", "queue 'q'"},
		{"QueueBindNeedsReadOnExchange", yes, yes, no, func(ch *Channel) error { return ch.QueueBind("q", "k", "x", false, nil) }, "read", "exchange 'x'"},
		{"QueueUnbindNeedsWriteOnQueue", yes, no, yes, func(ch *Channel) error { return ch.QueueUnbind("q", "k", "x", nil) }, "write", "queue 'q'"},
		{"QueueUnbindNeedsReadOnExchange", yes, yes, no, func(ch *Channel) error { return ch.QueueUnbind("q", "k", "x", nil) }, "read", "exchange 'x'"},
		{"ExchangeBindNeedsWriteOnDestination", yes, "^x$", yes, func(ch *Channel) error {
			return ch.ExchangeBind("amq.topic", "k", "x", false, nil)
		}, "write", "exchange 'amq.topic'"},
		{"ExchangeBindNeedsReadOnSource", yes, yes, "^amq.topic$", func(ch *Channel) error {
			return ch.ExchangeBind("amq.topic", "k", "x", false, nil)
		}, "read", "exchange 'x'"},
		{"GetNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, _, err := ch.Get("q", true)
			return err
		}, "read", "queue 'q'"},
		{"ConsumeNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, err := ch.Consume("q", "", true, false, false, false, nil)
			return err
		}, "read", "queue 'q'"},
		{"PurgeNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, err := ch.QueuePurge("q", false)
			return err
		}, "read", "queue 'q'"},
		{"GetMissingNeedsRead", yes, yes, no, func(ch *Channel) error {
			_, _, err := ch.Get("missing", true)
			return err
		}, "read", "queue 'missing'"},
		{"DeadLetterNeedsReadOnQueue", yes, yes, no, declare("new", amqp091.Table{"x-dead-letter-exchange": "x"}), "read", "queue 'new'"},
		{"DeadLetterNeedsWriteOnExchange", yes, no, yes, declare("new", amqp091.Table{"x-dead-letter-exchange": "x"}), "write", "exchange 'x'"},
		{"AlternateNeedsReadOnExchange", yes, yes, no, alternate, "read", "exchange 'new'"},
		{"AlternateNeedsWriteOnAlternate", yes, no, yes, alternate, "write", "exchange 'x'"},
	}
}

func publishNeedsWrite(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs(".*", "^other$", ".*")
	ch.Send("amq.direct", "k", "refused")
	ch.WantClosed(403, denied(b, "write", "exchange 'amq.direct'", user))
}

func publishToDefaultNeedsWrite(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs(".*", "^q$", ".*")
	ch.Queue("q", nil)
	ch.Send("", "q", "refused")
	ch.WantClosed(403, denied(b, "write", "exchange 'amq.default'", user))
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
	ch.WantClosed(403, denied(b, "write", "exchange 'missing'", user))
}

// A passive declaration needs a permission from 4.3 on: that to configure, to write or to read.
func passiveNeedsAny(_ *testing.T, b *Bench) {
	const no, yes = "^$", ".*"
	owner := b.Channel()
	owner.Queue("q", nil)
	owner.Exchange("x", "direct", nil)
	inspect := func(ch *Channel) (queue, exchange error) {
		exchange = ch.ExchangeDeclarePassive("x", "direct", true, false, false, false, nil)
		_, queue = ch.QueueDeclarePassive("q", true, false, false, false, nil)
		return queue, exchange
	}
	for _, may := range [][3]string{{yes, no, no}, {no, yes, no}, {no, no, yes}} {
		ch, _ := b.ChannelAs(may[0], may[1], may[2])
		queue, exchange := inspect(ch)
		b.Must(queue)
		b.Must(exchange)
	}
	user, password := b.Target.AddUser(b.t, b.Name, no, no, no)
	conn := b.ConnectAs(user, password)
	if !b.Since(release43) {
		queue, exchange := inspect(conn.Channel())
		b.Must(queue)
		b.Must(exchange)
		return
	}
	_, queue := conn.Channel().QueueDeclarePassive("q", true, false, false, false, nil)
	b.Refused(queue, 403, denied(b, "configure", "queue 'q'", user))
	_, missing := conn.Channel().QueueDeclarePassive("missing", true, false, false, false, nil)
	b.Refused(missing, 403, denied(b, "configure", "queue 'missing'", user))
	exchange := conn.Channel().ExchangeDeclarePassive("x", "direct", true, false, false, false, nil)
	b.Refused(exchange, 403, denied(b, "configure", "exchange 'x'", user))
}

func patternsNotAnchored(_ *testing.T, b *Bench) {
	ch, _ := b.ChannelAs("middle", "^$", "^$")
	ch.Queue("a middle z", nil)
}

func emptyPatternIsNothing(_ *testing.T, b *Bench) {
	ch, user := b.ChannelAs("", ".*", ".*")
	b.Refused(queueSpec{}.declare(ch, "q"), 403, denied(b, "configure", "queue 'q'", user))
}

func serverNamedNeedsConfigure(_ *testing.T, b *Bench) {
	allowed, _ := b.ChannelAs(`^amq\.gen`, "^$", "^$")
	allowed.Queue("", nil)
	refused, user := b.ChannelAs("^mine", "^$", "^$")
	b.Refused(queueSpec{}.declare(refused, ""), 403, denied(b, "configure", "queue 'amq.gen-…'", user))
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
	b.Refused(queueSpec{}.declare(conn.Channel(), "other"), 403, denied(b, "configure", "queue 'other'", user))
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
