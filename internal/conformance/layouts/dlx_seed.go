package layouts

import (
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// dlxFleet is the order system of the seed dlx.
type dlxFleet struct {
	*Program
	ttl time.Duration
}

const (
	orderSummary      = "order-summary-queue"
	orderNotification = "order-notification-queue"
)

// declare is what the seed's sender begins with.
func (f dlxFleet) declare() {
	f.b.t.Helper()
	f.Exchange("dlx", "topic", nil)
	f.Queue("dlq", amqp091.Table{"x-queue-mode": "lazy"})
	f.Bind("dlq", "#", "dlx")
	f.Exchange("order", "topic", amqp091.Table{"alternate-exchange": "dlx"})
	args := amqp091.Table{
		"x-dead-letter-exchange": "dlx", "x-overflow": "drop-head", "x-max-length": int32(300), "x-message-ttl": int32(f.ttl.Milliseconds()),
	}
	f.Queue(orderSummary, args)
	f.Bind(orderSummary, "order.#", "order")
	f.Queue(orderNotification, args)
	f.Bind(orderNotification, "order.created", "order")
}

// receive consumes as the seed's receiver does: what fails for the first time is requeued, what fails again is dead-lettered.
func (f dlxFleet) receive(queue string, times int, failing func(amqp091.Delivery) bool) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue, times, func(_ *amqp091.Channel, d amqp091.Delivery) error {
		if !failing(d) {
			return d.Ack(false)
		}
		return d.Nack(false, !d.Redelivered)
	})
}

// deathReason is why the broker dead-lettered a message last, "" if it did not.
func deathReason(d amqp091.Delivery) string {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	newest, _ := deaths[0].(amqp091.Table)
	reason, _ := newest["reason"].(string)
	return reason
}
