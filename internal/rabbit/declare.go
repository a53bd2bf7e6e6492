package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/topology"
)

// Declare declares a plan. It is safe to repeat. If the broker does not accept an object, the error is a
// *DeclareError.
func (l *Link) Declare(ctx context.Context, plan topology.Plan) error {
	return l.DeclareMissing(ctx, func() topology.Plan { return plan })
}

// DeclareMissing is Declare with a plan that depends on the connection: missing is called when there is
// one.
func (l *Link) DeclareMissing(ctx context.Context, missing func() topology.Plan) error {
	return l.briefly(ctx, func(ch *amqp.Channel) error { return declare(ch, missing()) })
}

func declare(ch *amqp.Channel, plan topology.Plan) error {
	for _, x := range plan.Exchanges {
		var err error
		if x.Passive {
			err = ch.ExchangeDeclarePassive(x.Name, "topic", true, false, false, false, nil)
		} else {
			err = ch.ExchangeDeclare(x.Name, x.Type, true, x.AutoDelete, x.Internal, false, ToTable(x.Args))
		}
		if err != nil {
			return declareError("exchange", x.Name, err)
		}
	}
	for _, q := range plan.Queues {
		if err := declareQueue(ch, q); err != nil {
			return err
		}
	}
	for _, b := range plan.Bindings {
		var err error
		if b.ToExchange {
			err = ch.ExchangeBind(b.Destination, b.Key, b.Source, false, ToTable(b.Args))
		} else {
			err = ch.QueueBind(b.Destination, b.Key, b.Source, false, ToTable(b.Args))
		}
		if err != nil {
			return declareError("binding from "+b.Source+" to", b.Destination, err)
		}
	}
	return nil
}

func declareQueue(ch *amqp.Channel, q topology.Queue) (err error) {
	if q.Passive {
		_, err = ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
	} else {
		durable := !q.Exclusive
		_, err = ch.QueueDeclare(q.Name, durable, q.AutoDelete, q.Exclusive, false, ToTable(q.Args))
	}
	if err != nil {
		return declareError("queue", q.Name, err)
	}
	return nil
}

func inspect(ch *amqp.Channel, queue string) (Depth, error) {
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return Depth{}, declareError("queue", queue, err)
	}
	return Depth{Messages: q.Messages, Consumers: q.Consumers}, nil
}
