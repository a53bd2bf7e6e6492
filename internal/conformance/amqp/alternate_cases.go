package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const alternatePage = "Alternate Exchanges"

func alternateCases() []Case {
	return []Case{
		{"TakesUnroutable", alternatePage, alternateTakesUnroutable},
		{"KeepsOriginalExchange", alternatePage, alternateKeepsOriginal},
		{"Chain", alternatePage, alternateChain},
		{"Cycle", alternatePage, alternateCycle},
		{"Missing", alternatePage, alternateMissing},
		{"MandatoryIsRouted", alternatePage, alternateMandatoryRouted},
		{"MandatoryIsReturned", alternatePage, alternateMandatoryReturned},
		{"OfDestinationExchange", alternatePage, alternateOfDestination},
		{"RoutedButLostIsNotUnroutable", alternatePage, alternateNotAfterBinding},
		{"WrongType", alternatePage, alternateWrongType},
		{"DeclaredLater", alternatePage, alternateDeclaredLater},
		{"InternalAlternate", alternatePage, alternateInternal},
	}
}

// alternated declares a direct exchange x whose alternate exchange is ae, and a queue that gets all of ae.
func alternated(b *Bench) *Channel {
	ch := b.Channel()
	ch.Exchange("x", "direct", amqp091.Table{"alternate-exchange": "ae"})
	ch.Exchange("ae", "fanout", nil)
	ch.Queue("unrouted", nil)
	ch.Bind("unrouted", "", "ae", nil)
	ch.Queue("routed", nil)
	ch.Bind("routed", "k", "x", nil)
	return ch
}

func alternateTakesUnroutable(_ *testing.T, b *Bench) {
	ch := alternated(b)
	ch.Send("x", "k", "routed")
	ch.Send("x", "other", "unrouted")
	ch.WantBodies("routed", "routed")
	ch.WantBodies("unrouted", "unrouted")
}

func alternateKeepsOriginal(_ *testing.T, b *Bench) {
	ch := alternated(b)
	ch.Send("x", "other", "unrouted")
	got := ch.Take("unrouted")
	Equal(b, "exchange", got.Exchange, "x")
	Equal(b, "routing key", got.RoutingKey, "other")
}

func alternateChain(_ *testing.T, b *Bench) {
	ch := alternated(b)
	ch.Exchange("first", "direct", amqp091.Table{"alternate-exchange": "second"})
	ch.Exchange("second", "direct", amqp091.Table{"alternate-exchange": "x"})
	ch.Send("first", "k", "two steps")
	ch.Send("first", "other", "three steps")
	ch.WantBodies("routed", "two steps")
	ch.WantBodies("unrouted", "three steps")
}

func alternateCycle(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("one", "direct", amqp091.Table{"alternate-exchange": "two"})
	ch.Exchange("two", "direct", amqp091.Table{"alternate-exchange": "one"})
	ch.Queue("q", nil)
	ch.Bind("q", "k", "two", nil)
	ch.Send("one", "nobody", "lost")
	ch.Send("one", "k", "found")
	ch.WantBodies("q", "found")
}

func alternateMissing(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Exchange("x", "direct", amqp091.Table{"alternate-exchange": "never declared"})
	ch.Send("x", "k", "dropped")
	ch.Sync()
}

// mandatory publishes a mandatory message and returns how many returns came before its confirm.
func (ch *Channel) mandatory(exchange, key string) int {
	ch.b.t.Helper()
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp091.Publishing{})
	ch.b.Must(err)
	ch.b.Acked(confirm)
	return len(returns)
}

func alternateMandatoryRouted(_ *testing.T, b *Bench) {
	ch := alternated(b).Confirming()
	Equal(b, "returns", ch.mandatory("x", "other"), 0)
	ch.WantCount("unrouted", 1)
}

func alternateMandatoryReturned(_ *testing.T, b *Bench) {
	ch := alternated(b).Confirming()
	b.Must(ch.QueueUnbind("unrouted", "", "ae", nil))
	Equal(b, "returns", ch.mandatory("x", "other"), 1)
}

func alternateOfDestination(_ *testing.T, b *Bench) {
	ch := alternated(b)
	ch.Exchange("outer", "fanout", nil)
	b.Must(ch.ExchangeBind("x", "", "outer", false, nil))
	ch.Send("outer", "other", "unrouted within")
	ch.WantBodies("unrouted", "unrouted within")
}

// alternateNotAfterBinding shows that an exchange has routed a message once a binding matched, even
// where that leads nowhere.
func alternateNotAfterBinding(_ *testing.T, b *Bench) {
	ch := alternated(b)
	ch.Exchange("nowhere", "fanout", nil)
	b.Must(ch.ExchangeBind("nowhere", "lost", "x", false, nil))
	ch.Send("x", "lost", "lost")
	ch.WantBodies("unrouted")
}

func alternateWrongType(_ *testing.T, b *Bench) {
	err := exchangeSpec{kind: "direct", args: amqp091.Table{"alternate-exchange": int32(1)}}.declare(b.Channel(), "x")
	b.Refused(err, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '{vhost}'")
}

func alternateDeclaredLater(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", amqp091.Table{"alternate-exchange": "later"})
	ch.Send("x", "k", "too early")
	ch.Exchange("later", "fanout", nil)
	ch.Queue("q", nil)
	ch.Bind("q", "", "later", nil)
	ch.Send("x", "k", "in time")
	ch.WantBodies("q", "in time")
}

func alternateInternal(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "direct", amqp091.Table{"alternate-exchange": "inner"})
	b.Must(exchangeSpec{kind: "fanout", internal: true}.declare(ch, "inner"))
	ch.Queue("q", nil)
	ch.Bind("q", "", "inner", nil)
	ch.Send("x", "k", "through")
	ch.WantBodies("q", "through")
}
