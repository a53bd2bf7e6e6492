package layouts

import (
	"context"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
)

// deleteQueue deletes a queue, as somebody does by mistake.
func deleteQueue(p *Program, queue string) {
	p.b.t.Helper()
	_, err := p.QueueDelete(queue, false, false, false)
	p.b.Must(err)
}

// hasQueue reports whether a queue exists.
func hasQueue(p *Program, queue string) bool {
	p.b.t.Helper()
	return p.Refused(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	}) == 0
}

// waitsThenFails is a handler that says that it has begun, and fails when it may.
func waitsThenFails(began chan<- struct{}, may <-chan struct{}) rehop.HandlerFunc {
	return func(context.Context, *rehop.Delivery) error {
		began <- struct{}{}
		<-may
		return errFailed
	}
}
