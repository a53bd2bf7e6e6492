package amqp

import (
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const (
	exchangesPage     = "AMQP 0-9-1 model: Exchanges and Exchange Types"
	exchangeReference = "AMQP 0-9-1 reference: exchange.declare"
	deleteReference   = "AMQP 0-9-1 reference: exchange.delete"
)

func exchangeCases() []Case {
	return []Case{
		{"DeclareDirect", exchangesPage, declaresExchange("direct")},
		{"DeclareFanout", exchangesPage, declaresExchange("fanout")},
		{"DeclareTopic", exchangesPage, declaresExchange("topic")},
		{"DeclareHeaders", exchangesPage, declaresExchange("headers")},
		{"DeclareUnknownType", exchangeReference + ", type", declareUnknownType},
		{"DeclareNameOf255Bytes", exchangeReference + ", exchange-name", declareExchangeLongName},
		{"LongNameInNotFound", exchangeReference + ", exchange-name", refusesLongName(404, "NOT_FOUND - no exchange '", passiveExchange)},
		{"LongNameInPublish", exchangeReference + ", exchange-name", refusesLongName(404, "NOT_FOUND - no exchange '", publishTo)},
		{"DeclareDropsNewlines", exchangeReference + ", exchange-name", declareExchangeNewlines},
		{"DeclareReservedName", exchangeReference + ", reserved", declareExchangeReserved},
		{"DeclareDefault", exchangeReference + ", default exchange", declareDefaultExchange},
		{"DeclareUnknownArgument", exchangeReference + ", arguments", declareExchangeUnknownArgument},
		{"Predeclared", exchangesPage, predeclaredExchanges},
		{"RedeclareSame", exchangeReference + ", equivalent", redeclareExchange},
		{"RedeclarePredeclared", exchangeReference + ", reserved", redeclarePredeclared},
		{"RedeclareOtherType", exchangeReference + ", not-allowed", redeclares(exchangeSpec{kind: "fanout"}, "type", "fanout", "direct")},
		{"RedeclareTransient", exchangeReference + ", equivalent", redeclares(exchangeSpec{kind: "direct", transient: true}, "durable", "false", "true")},
		{"RedeclareAutoDelete", exchangeReference + ", equivalent", redeclares(exchangeSpec{kind: "direct", autoDelete: true}, "auto_delete", "true", "false")},
		{"RedeclareInternal", exchangeReference + ", equivalent", redeclares(exchangeSpec{kind: "direct", internal: true}, "internal", "true", "false")},
		{"RedeclareOtherAlternate", exchangeReference + ", equivalent", redeclareOtherAlternate},
		{"RedeclareOtherUnknownArgument", exchangeReference + ", equivalent", redeclareUnknownArgument},
		{"PassiveFound", exchangeReference + ", passive", passiveExchangeFound},
		{"PassiveMissing", exchangeReference + ", passive", passiveExchangeMissing},
		{"PassiveDefault", exchangeReference + ", default exchange", passiveDefaultExchange},
		{"Delete", deleteReference, deleteExchange},
		{"DeleteMissing", "Specification differences: exchange.delete and queue.delete are idempotent", deleteExchangeMissing},
		{"DeletePredeclared", deleteReference + ", reserved", deletePredeclared},
		{"DeleteDefault", deleteReference + ", reserved", deleteDefaultExchange},
		{"DeleteUnbinds", deleteReference, deleteExchangeUnbinds},
		{"DeleteIfUnusedInUse", deleteReference + ", in-use", deleteExchangeInUse},
		{"DeleteIfUnusedFree", deleteReference + ", if-unused", deleteExchangeUnused},
		{"DeleteIfUnusedAsDestination", deleteReference + ", if-unused", deleteExchangeDestination},
		{"AutoDeleteAfterUnbind", exchangeReference + ", auto-delete", autoDeleteAfterUnbind},
		{"AutoDeleteAfterQueueDelete", exchangeReference + ", auto-delete", autoDeleteAfterQueueDelete},
		{"AutoDeleteNotBeforeBinding", exchangeReference + ", auto-delete", autoDeleteNotBeforeBinding},
		{"AutoDeleteCascades", exchangeReference + ", auto-delete", autoDeleteCascades},
		{"InternalNotPublishable", exchangeReference + ", internal", internalNotPublishable},
		{"InternalThroughBinding", exchangeReference + ", internal", internalThroughBinding},
	}
}

// exchangeSpec is how an exchange is declared; its zero value but for kind is an ordinary durable one.
type exchangeSpec struct {
	kind                            string
	transient, autoDelete, internal bool
	args                            amqp091.Table
}

func (s exchangeSpec) declare(ch *Channel, name string) error {
	return ch.ExchangeDeclare(name, s.kind, !s.transient, s.autoDelete, s.internal, false, s.args)
}

func declaresExchange(kind string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel()
		ch.Exchange("x", kind, nil)
		b.Must(ch.ExchangeDeclarePassive("x", kind, true, false, false, false, nil))
	}
}

func declareUnknownType(_ *testing.T, b *Bench) {
	conn := b.Connect()
	err := conn.Channel().ExchangeDeclare("x", "nonsense", true, false, false, false, nil)
	if b.Since(release40) {
		b.Refused(err, 406, "PRECONDITION_FAILED - unknown exchange type 'nonsense'")
		conn.Channel().Sync() // only the channel is closed
		return
	}
	b.Refused(err, 503, "COMMAND_INVALID - unknown exchange type 'nonsense'")
	conn.WantClosed(503, "COMMAND_INVALID - unknown exchange type 'nonsense'")
}

func declareExchangeLongName(_ *testing.T, b *Bench) {
	name := strings.Repeat("x", 255)
	ch := b.Channel()
	ch.Exchange(name, "fanout", nil)
	ch.Queue("q", nil)
	ch.Bind("q", "", name, nil)
	ch.Send(name, "", "through")
	Equal(b, "exchange of the message", ch.Take("q").Exchange, name)
}

func declareExchangeNewlines(_ *testing.T, b *Bench) {
	b.Channel().Exchange("one\r\ntwo\n", "direct", nil)
	b.ExchangeExists("onetwo", true)
}

func declareExchangeReserved(_ *testing.T, b *Bench) {
	err := exchangeSpec{kind: "direct"}.declare(b.Channel(), "amq.mine")
	b.Refused(err, 403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'")
}

func declareDefaultExchange(_ *testing.T, b *Bench) {
	err := exchangeSpec{kind: "direct"}.declare(b.Channel(), "")
	b.Refused(err, 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func declareExchangeUnknownArgument(_ *testing.T, b *Bench) {
	b.Channel().Exchange("x", "direct", amqp091.Table{"x-unknown": "value", "other": int32(1)})
}

func predeclaredExchanges(_ *testing.T, b *Bench) {
	ch := b.Channel()
	for _, name := range []string{"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"} {
		b.Must(ch.ExchangeDeclarePassive(name, "", false, false, false, false, nil))
	}
}

func redeclareExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	spec := exchangeSpec{kind: "topic", transient: true, internal: true, args: amqp091.Table{"alternate-exchange": "other"}}
	b.Must(spec.declare(ch, "x"))
	b.Must(spec.declare(ch, "x"))
}

func redeclarePredeclared(_ *testing.T, b *Bench) {
	b.Must(exchangeSpec{kind: "topic"}.declare(b.Channel(), "amq.topic"))
}

// redeclares is a case in which a durable direct exchange is declared once more, and differs in one field.
func redeclares(again exchangeSpec, field, received, current string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel()
		ch.Exchange("x", "direct", nil)
		b.Refused(again.declare(ch, "x"), 406, "PRECONDITION_FAILED - inequivalent arg '"+field+
			"' for exchange 'x' in vhost '{vhost}': received '"+received+"' but current is '"+current+"'")
	}
}

func redeclareOtherAlternate(_ *testing.T, b *Bench) {
	const prefix = "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '{vhost}': "
	conn := b.Connect()
	conn.Channel().Exchange("x", "direct", amqp091.Table{"alternate-exchange": "one"})
	err := exchangeSpec{kind: "direct", args: amqp091.Table{"alternate-exchange": "two"}}.declare(conn.Channel(), "x")
	b.Refused(err, 406, prefix+"received 'two' but current is 'one'")
	err = exchangeSpec{kind: "direct"}.declare(conn.Channel(), "x")
	b.Refused(err, 406, prefix+"received none but current is the value 'one' of type 'longstr'")
}

func redeclareUnknownArgument(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", amqp091.Table{"x-unknown": "one"})
	ch.Exchange("x", "direct", amqp091.Table{"x-unknown": "two"})
	ch.Exchange("x", "direct", nil)
}

func passiveExchangeFound(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "topic", nil)
	// A passive declare compares nothing but the name.
	b.Must(ch.ExchangeDeclarePassive("x", "nonsense", false, true, true, false, amqp091.Table{"alternate-exchange": "y"}))
}

func passiveExchangeMissing(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeDeclarePassive("x", "direct", true, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no exchange 'x' in vhost '{vhost}'")
}

func passiveDefaultExchange(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeDeclarePassive("", "direct", true, false, false, false, nil)
	b.Refused(err, 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func deleteExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", nil)
	b.Must(ch.ExchangeDelete("x", false, false))
	b.ExchangeExists("x", false)
}

func deleteExchangeMissing(_ *testing.T, b *Bench) {
	b.Must(b.Channel().ExchangeDelete("never declared", false, false))
}

func deletePredeclared(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeDelete("amq.topic", false, false)
	b.Refused(err, 403, "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '{vhost}' not allowed")
}

func deleteDefaultExchange(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeDelete("", false, false)
	b.Refused(err, 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func deleteExchangeUnbinds(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "fanout", nil)
	ch.Queue("q", nil)
	ch.Bind("q", "", "x", nil)
	b.Must(ch.ExchangeDelete("x", false, false))
	ch.Exchange("x", "fanout", nil)
	ch.Send("x", "", "lost")
	ch.WantBodies("q")
}

func deleteExchangeInUse(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", nil)
	ch.Queue("q", nil)
	ch.Bind("q", "k", "x", nil)
	b.Refused(ch.ExchangeDelete("x", true, false), 406, "PRECONDITION_FAILED - exchange 'x' in vhost '{vhost}' in use")
}

func deleteExchangeUnused(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", nil)
	ch.Queue("q", nil)
	ch.Bind("q", "k", "x", nil)
	b.Must(ch.QueueUnbind("q", "k", "x", nil))
	b.Must(ch.ExchangeDelete("x", true, false))
	b.ExchangeExists("x", false)
}

func deleteExchangeDestination(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("source", "fanout", nil)
	ch.Exchange("destination", "fanout", nil)
	b.Must(ch.ExchangeBind("destination", "", "source", false, nil))
	// Only bindings from an exchange are use of it.
	b.Must(ch.ExchangeDelete("destination", true, false))
	b.Must(ch.ExchangeDelete("source", true, false))
}

// autoDeleting declares an auto-delete exchange x and binds the queue q to it.
func autoDeleting(b *Bench) *Channel {
	ch := b.Channel()
	b.Must(exchangeSpec{kind: "direct", autoDelete: true}.declare(ch, "x"))
	ch.Queue("q", nil)
	ch.Bind("q", "one", "x", nil)
	ch.Bind("q", "two", "x", nil)
	return ch
}

func autoDeleteAfterUnbind(_ *testing.T, b *Bench) {
	ch := autoDeleting(b)
	b.Must(ch.QueueUnbind("q", "one", "x", nil))
	b.ExchangeExists("x", true)
	b.Must(ch.QueueUnbind("q", "two", "x", nil))
	b.ExchangeExists("x", false)
}

func autoDeleteAfterQueueDelete(_ *testing.T, b *Bench) {
	ch := autoDeleting(b)
	_, err := ch.QueueDelete("q", false, false, false)
	b.Must(err)
	b.ExchangeExists("x", false)
}

func autoDeleteNotBeforeBinding(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(exchangeSpec{kind: "direct", autoDelete: true}.declare(ch, "x"))
	b.Must(ch.Close())
	b.ExchangeExists("x", true)
}

func autoDeleteCascades(_ *testing.T, b *Bench) {
	ch := b.Channel()
	auto := exchangeSpec{kind: "fanout", autoDelete: true}
	b.Must(auto.declare(ch, "source"))
	b.Must(auto.declare(ch, "destination"))
	b.Must(ch.ExchangeBind("destination", "", "source", false, nil))
	ch.Queue("q", nil)
	ch.Bind("q", "", "destination", nil)
	b.Must(ch.QueueUnbind("q", "", "destination", nil))
	b.ExchangeExists("destination", false)
	b.ExchangeExists("source", false)
}

func internalNotPublishable(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(exchangeSpec{kind: "fanout", internal: true}.declare(ch, "x"))
	ch.Send("x", "", "refused")
	ch.WantClosed(403, "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '{vhost}'")
}

func internalThroughBinding(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(exchangeSpec{kind: "fanout", internal: true}.declare(ch, "inner"))
	ch.Exchange("outer", "fanout", nil)
	b.Must(ch.ExchangeBind("inner", "", "outer", false, nil))
	ch.Queue("q", nil)
	ch.Bind("q", "", "inner", nil)
	ch.Send("outer", "", "through")
	ch.WantBodies("q", "through")
}
