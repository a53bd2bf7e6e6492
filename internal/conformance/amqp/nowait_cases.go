package amqp

import (
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

const noWaitReference = "AMQP 0-9-1 reference: no-wait"

func noWaitCases() []Case {
	return []Case{
		{"QueueDeclare", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.QueueDeclare{Queue: "new", Durable: true, NoWait: true})
		}, func(b *Bench) { b.QueueExists("new") })},
		{"QueuePassive", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.QueueDeclare{Queue: "q", Passive: true, NoWait: true})
		}, nil)},
		{"QueueBind", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.QueueBind{Queue: "q", Exchange: "amq.fanout", NoWait: true})
		}, func(b *Bench) { b.fanoutReaches("q", "waiting", "new") })},
		{"QueuePurge", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.QueuePurge{Queue: "q", NoWait: true})
		}, func(b *Bench) { b.Channel().WantBodies("q") })},
		{"QueueDelete", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.QueueDelete{Queue: "q", NoWait: true})
		}, func(b *Bench) { b.QueueGone("q") })},
		{"ExchangeDeclare", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.ExchangeDeclare{Exchange: "new", Type: "direct", NoWait: true})
		}, func(b *Bench) { b.ExchangeExists("new", true) })},
		{"ExchangeDelete", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.ExchangeDelete{Exchange: "x", NoWait: true})
		}, func(b *Bench) { b.ExchangeExists("x", false) })},
		{"ExchangeBind", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.ExchangeBind{Destination: "x", Source: "amq.fanout", NoWait: true})
		}, func(b *Bench) { b.fanoutReaches("q", "waiting", "new") })},
		{"ExchangeUnbind", noWaitReference, unanswered(func(r *Raw) {
			r.Send(1, &wire.ExchangeBind{Destination: "x", Source: "amq.fanout", NoWait: true},
				&wire.ExchangeUnbind{Destination: "x", Source: "amq.fanout", NoWait: true})
		}, func(b *Bench) { b.fanoutReaches("q", "waiting") })},
		{"ConfirmSelect", noWaitReference, noWaitConfirm},
		{"Consume", noWaitReference, noWaitConsume},
		{"Cancel", noWaitReference, noWaitCancel},
		{"ExceptionIsSent", noWaitReference, noWaitException},
	}
}

// unanswered does something with no-wait where there are a queue q that holds a message, and a fanout
// exchange x that q is bound to. It checks that the next answer is that to a later method, and then what became of it.
func unanswered(do func(r *Raw), check func(b *Bench)) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel().Confirming()
		ch.Queue("q", nil)
		ch.Exchange("x", "fanout", nil)
		ch.Bind("q", "", "x", nil)
		ch.Send("", "q", "waiting")
		r := b.RawChannel()
		do(r)
		r.Sync()
		if check != nil {
			check(b)
		}
	}
}

// fanoutReaches publishes a message to amq.fanout and checks what is in a queue then.
func (b *Bench) fanoutReaches(queue string, want ...string) {
	b.t.Helper()
	ch := b.Channel()
	ch.Send("amq.fanout", "", "new")
	ch.WantBodies(queue, want...)
}

func noWaitConfirm(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.ConfirmSelect{NoWait: true})
	r.Publish(1, &wire.BasicPublish{RoutingKey: "nobody"}, wire.Properties{}, nil)
	Equal(b, "confirmed tag", Expect[*wire.BasicAck](r, 1).DeliveryTag, 1)
}

func noWaitConsume(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c", NoAck: true, NoWait: true})
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("first"))
	Equal(b, "consumer tag", Expect[*wire.BasicDeliver](r, 1).ConsumerTag, "c")
	r.Content(1)
}

func noWaitCancel(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c", NoAck: true})
	Expect[*wire.BasicConsumeOK](r, 1)
	r.Send(1, &wire.BasicCancel{ConsumerTag: "c", NoWait: true})
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("kept"))
	_, body := r.Get("q")
	Equal(b, "body", string(body), "kept")
}

func noWaitException(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclare{Queue: "missing", Passive: true, NoWait: true})
	r.WantChannelClose(1, 404, "NOT_FOUND - no queue 'missing' in vhost '{vhost}'", wire.IDQueueDeclare)
}
