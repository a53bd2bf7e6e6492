package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const (
	bindReference     = "AMQP 0-9-1 reference: queue.bind"
	unbindReference   = "AMQP 0-9-1 reference: queue.unbind"
	idempotentUnbind  = "Specification differences: queue.unbind is idempotent"
	exchangeBindsPage = "Exchange to Exchange Bindings"
)

func bindingCases() []Case {
	return []Case{
		{"BindTwice", bindReference + ", duplicates", bindTwice},
		{"BindMissingQueue", bindReference + ", queue-known", bindMissingQueue},
		{"BindMissingExchange", bindReference + ", exchange existence", bindMissingExchange},
		{"BindDefaultExchange", "AMQP 0-9-1 model: Default Exchange", bindDefaultExchange},
		{"BindLastDeclaredQueue", bindReference + ", queue-known", bindLastDeclared},
		{"BindLastDeclaredNone", bindReference + ", queue-known", bindLastDeclaredNone},
		{"BindDurableToTransient", bindReference + ", durability", bindDurableToTransient},
		{"BindArgumentsDiffer", bindReference, bindArgumentsDiffer},
		{"Unbind", unbindReference, unbind},
		{"UnbindOneOfTwo", unbindReference, unbindOneOfTwo},
		{"UnbindOtherArguments", unbindReference + ", arguments", unbindOtherArguments},
		{"UnbindMissingBinding", idempotentUnbind, unbindMissingBinding},
		{"UnbindMissingQueue", idempotentUnbind, unbindMissingQueue},
		{"UnbindMissingExchange", idempotentUnbind, unbindMissingExchange},
		{"UnbindDefaultExchange", "AMQP 0-9-1 model: Default Exchange", unbindDefaultExchange},
		{"QueueDeleteUnbinds", "AMQP 0-9-1 reference: queue.delete", queueDeleteUnbinds},
		{"ExchangeToExchange", exchangeBindsPage, exchangeToExchange},
		{"ExchangeToExchangeByKey", exchangeBindsPage, exchangeToExchangeByKey},
		{"ExchangeToExchangeTwice", exchangeBindsPage, exchangeToExchangeTwice},
		{"ExchangeUnbind", exchangeBindsPage, exchangeUnbind},
		{"ExchangeUnbindMissing", exchangeBindsPage, exchangeUnbindMissing},
		{"ExchangeCycle", exchangeBindsPage, exchangeCycle},
		{"ExchangeToItself", exchangeBindsPage, exchangeToItself},
		{"ExchangeDiamond", exchangeBindsPage, exchangeDiamond},
		{"ExchangeMissingSource", exchangeBindsPage, exchangeMissingSource},
		{"ExchangeMissingDestination", exchangeBindsPage, exchangeMissingDestination},
		{"ExchangeDefaultSource", exchangeBindsPage, exchangeDefaultSource},
		{"ExchangeDefaultDestination", exchangeBindsPage, exchangeDefaultDestination},
		{"ExchangeDestinationDeleted", exchangeBindsPage, exchangeDestinationDeleted},
		{"ExchangeKeepsOriginalExchange", exchangeBindsPage, exchangeKeepsOriginal},
	}
}

// boundQueue binds a queue q to a direct exchange x by the key k.
func boundQueue(b *Bench) *Channel {
	ch := b.Channel()
	ch.Exchange("x", "direct", nil)
	ch.Queue("q", nil)
	ch.Bind("q", "k", "x", nil)
	return ch
}

func bindTwice(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	ch.Bind("q", "k", "x", nil)
	ch.Send("x", "k", "once")
	ch.WantBodies("q", "once")
	b.Must(ch.QueueUnbind("q", "k", "x", nil))
	ch.Send("x", "k", "gone")
	ch.WantBodies("q")
}

func bindMissingQueue(_ *testing.T, b *Bench) {
	err := b.Channel().QueueBind("q", "k", "amq.direct", false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue 'q' in vhost '{vhost}'")
}

func bindMissingExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Refused(ch.QueueBind("q", "k", "x", false, nil), 404, "NOT_FOUND - no exchange 'x' in vhost '{vhost}'")
}

func bindDefaultExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Refused(ch.QueueBind("q", "k", "", false, nil), 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func bindLastDeclared(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("first", nil)
	ch.Queue("last", nil)
	// The key becomes the queue's name too.
	ch.Bind("", "", "amq.direct", nil)
	ch.Bind("", "k", "amq.direct", nil)
	ch.Send("amq.direct", "last", "by name")
	ch.Send("amq.direct", "k", "by key")
	ch.WantBodies("last", "by name", "by key")
	ch.WantBodies("first")
}

func bindLastDeclaredNone(_ *testing.T, b *Bench) {
	err := b.Channel().QueueBind("", "k", "amq.direct", false, nil)
	b.Refused(err, 404, "NOT_FOUND - no previously declared queue")
}

func bindDurableToTransient(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(exchangeSpec{kind: "fanout", transient: true}.declare(ch, "transient"))
	ch.Queue("durable", nil)
	ch.Bind("durable", "", "transient", nil)
	_, err := ch.QueueDeclare("fleeting", false, false, true, false, nil)
	b.Must(err)
	ch.Bind("fleeting", "", "amq.fanout", nil)
	ch.Send("transient", "", "one")
	ch.Send("amq.fanout", "", "two")
	ch.WantBodies("durable", "one")
	ch.WantBodies("fleeting", "two")
}

func bindArgumentsDiffer(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	ch.Bind("q", "k", "x", amqp091.Table{"note": "two"})
	b.Must(ch.QueueUnbind("q", "k", "x", nil))
	// The second binding is there still, and gives one copy.
	ch.Send("x", "k", "once")
	ch.WantBodies("q", "once")
}

func unbind(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	b.Must(ch.QueueUnbind("q", "k", "x", nil))
	ch.Send("x", "k", "gone")
	ch.WantBodies("q")
}

func unbindOneOfTwo(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	ch.Bind("q", "l", "x", nil)
	b.Must(ch.QueueUnbind("q", "k", "x", nil))
	ch.Send("x", "k", "gone")
	ch.Send("x", "l", "kept")
	ch.WantBodies("q", "kept")
}

func unbindOtherArguments(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	b.Must(ch.QueueUnbind("q", "k", "x", amqp091.Table{"note": "none has it"}))
	ch.Send("x", "k", "kept")
	ch.WantBodies("q", "kept")
}

func unbindMissingBinding(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	b.Must(ch.QueueUnbind("q", "other", "x", nil))
}

func unbindMissingQueue(_ *testing.T, b *Bench) {
	b.Must(b.Channel().QueueUnbind("q", "k", "amq.direct", nil))
}

func unbindMissingExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(ch.QueueUnbind("q", "k", "x", nil))
}

func unbindDefaultExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Refused(ch.QueueUnbind("q", "q", "", nil), 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func queueDeleteUnbinds(_ *testing.T, b *Bench) {
	ch := boundQueue(b)
	_, err := ch.QueueDelete("q", false, false, false)
	b.Must(err)
	ch.Queue("q", nil)
	ch.Send("x", "k", "gone")
	ch.WantBodies("q")
}

// exchangePair declares fanout exchanges from and to, of which from is bound to to, and to to a queue q.
func exchangePair(b *Bench) *Channel {
	ch := b.Channel()
	ch.Exchange("from", "fanout", nil)
	ch.Exchange("to", "fanout", nil)
	b.Must(ch.ExchangeBind("to", "", "from", false, nil))
	ch.Queue("q", nil)
	ch.Bind("q", "", "to", nil)
	return ch
}

func exchangeToExchange(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	ch.Send("from", "", "through")
	ch.WantBodies("q", "through")
}

func exchangeToExchangeByKey(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("from", "topic", nil)
	ch.Exchange("to", "direct", nil)
	b.Must(ch.ExchangeBind("to", "a.*", "from", false, nil))
	ch.Queue("q", nil)
	ch.Bind("q", "a.b", "to", nil)
	ch.Send("from", "a.b", "both match")
	ch.Send("from", "a.c", "first matches")
	ch.Send("from", "b.a", "none matches")
	ch.WantBodies("q", "both match")
}

func exchangeToExchangeTwice(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	b.Must(ch.ExchangeBind("to", "", "from", false, nil))
	b.Must(ch.ExchangeBind("to", "other", "from", false, nil))
	ch.Send("from", "", "once")
	ch.WantBodies("q", "once")
}

func exchangeUnbind(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	b.Must(ch.ExchangeUnbind("to", "", "from", false, nil))
	ch.Send("from", "", "gone")
	ch.Send("to", "", "direct")
	ch.WantBodies("q", "direct")
}

func exchangeUnbindMissing(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	b.Must(ch.ExchangeUnbind("to", "other", "from", false, nil))
	b.Must(ch.ExchangeUnbind("never", "", "declared", false, nil))
	ch.Send("from", "", "through")
	ch.WantBodies("q", "through")
}

func exchangeCycle(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	b.Must(ch.ExchangeBind("from", "", "to", false, nil))
	ch.Send("from", "", "one")
	ch.Send("to", "", "two")
	ch.WantBodies("q", "one", "two")
}

func exchangeToItself(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	b.Must(ch.ExchangeBind("to", "", "to", false, nil))
	ch.Send("to", "", "once")
	ch.WantBodies("q", "once")
}

func exchangeDiamond(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	ch.Exchange("detour", "fanout", nil)
	b.Must(ch.ExchangeBind("detour", "", "from", false, nil))
	b.Must(ch.ExchangeBind("to", "", "detour", false, nil))
	ch.Bind("q", "", "detour", nil)
	ch.Bind("q", "", "from", nil)
	ch.Send("from", "", "once")
	ch.WantBodies("q", "once")
}

func exchangeMissingSource(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeBind("amq.fanout", "", "from", false, nil)
	b.Refused(err, 404, "NOT_FOUND - no exchange 'from' in vhost '{vhost}'")
}

func exchangeMissingDestination(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeBind("to", "", "amq.fanout", false, nil)
	b.Refused(err, 404, "NOT_FOUND - no exchange 'to' in vhost '{vhost}'")
}

func exchangeDefaultSource(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeBind("amq.fanout", "", "", false, nil)
	b.Refused(err, 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func exchangeDefaultDestination(_ *testing.T, b *Bench) {
	err := b.Channel().ExchangeBind("", "", "amq.fanout", false, nil)
	b.Refused(err, 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
}

func exchangeDestinationDeleted(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	b.Must(ch.ExchangeDelete("to", false, false))
	ch.Exchange("to", "fanout", nil)
	ch.Bind("q", "", "to", nil)
	ch.Send("from", "", "unbound")
	ch.Send("to", "", "direct")
	ch.WantBodies("q", "direct")
}

func exchangeKeepsOriginal(_ *testing.T, b *Bench) {
	ch := exchangePair(b)
	ch.Send("from", "some.key", "through")
	got := ch.Take("q")
	Equal(b, "exchange", got.Exchange, "from")
	Equal(b, "routing key", got.RoutingKey, "some.key")
}
