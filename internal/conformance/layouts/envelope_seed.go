package layouts

import (
	"encoding/json"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// envelopeFleet is an order service of the seed envelope.
type envelopeFleet struct {
	*Program
	delay time.Duration
}

const (
	orderMain  = "order.main.q"
	orderRetry = "order.retry.q"
	orderDead  = "order.dead.q"

	maxRetry = 5 // the seed's MAX_RETRY
)

// declare is the seed's declare_retry_topology.
func (f envelopeFleet) declare() {
	f.b.t.Helper()
	f.Exchange("order.main.x", "topic", nil)
	f.Exchange("order.retry.x", "direct", nil)
	f.Exchange("order.dead.x", "fanout", nil)
	f.Queue(orderMain, amqp091.Table{"x-dead-letter-exchange": "order.retry.x", "x-dead-letter-routing-key": "order.retry"})
	f.Queue(orderRetry, amqp091.Table{"x-message-ttl": int32(f.delay.Milliseconds()), "x-dead-letter-exchange": "order.main.x", "x-dead-letter-routing-key": "order.created"})
	f.Queue(orderDead, nil)
	f.Bind(orderMain, "order.created", "order.main.x")
	f.Bind(orderRetry, "order.retry", "order.retry.x")
	f.Bind(orderDead, "", "order.dead.x")
}

// declareQuorum is the seed's queue for what must not be lost.
func (f envelopeFleet) declareQuorum() {
	f.b.t.Helper()
	f.Queue("order.quorum.q", amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(8), "x-dead-letter-exchange": "order.dead.x"})
}

// payload is a body as the seed sees it.
type payload map[string]any

func readPayload(d amqp091.Delivery) (payload, error) {
	var p payload
	return p, json.Unmarshal(d.Body, &p)
}

func (p payload) retries() int {
	n, _ := p["retry_count"].(float64)
	return int(n)
}

// publishing is the payload as the seed publishes it: without the properties that it came with.
func (p payload) publishing() (amqp091.Publishing, error) {
	body, err := json.Marshal(p)
	return amqp091.Publishing{ContentType: "application/json", DeliveryMode: amqp091.Persistent, Body: body}, err
}

// outcome is what the seed's process_order returns.
type outcome int

const (
	processed outcome = iota
	temporaryError
	permanentError
)

// handle consumes as the seed's handle_message does: it edits the body, publishes it to the next station without a confirm, and acks.
func (f envelopeFleet) handle(times int, process func(amqp091.Delivery) outcome) *Consumer {
	f.b.t.Helper()
	return f.Consume(orderMain, times, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		exchange, key := "order.dead.x", ""
		p, err := readPayload(d)
		if err != nil {
			return err // as in the seed, it ends the program
		}
		switch process(d) {
		case processed:
			return d.Ack(false)
		case permanentError:
			p["dead_reason"] = "business_rejected"
		case temporaryError:
			if p.retries() >= maxRetry {
				p["dead_reason"] = "retry_limit"
			} else {
				p["retry_count"] = p.retries() + 1
				exchange, key = "order.retry.x", "order.retry"
			}
		}
		m, err := p.publishing()
		if err == nil {
			err = ch.Publish(exchange, key, false, false, m)
		}
		if err != nil {
			return err
		}
		return d.Ack(false)
	})
}

// reject consumes as the seed's thread pool does with what fails, and its consume_order with what has no id: it rejects.
func (f envelopeFleet) reject(times int, rejects func(amqp091.Delivery) bool) *Consumer {
	f.b.t.Helper()
	return f.Consume(orderMain, times, func(_ *amqp091.Channel, d amqp091.Delivery) error {
		if rejects(d) {
			return d.Nack(false, false)
		}
		return d.Ack(false)
	})
}

func temporarily(amqp091.Delivery) outcome { return temporaryError }

// hasNoID is the seed's check.
func hasNoID(d amqp091.Delivery) bool { return d.MessageId == "" }
