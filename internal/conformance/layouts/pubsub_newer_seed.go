package layouts

import (
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// pubSubNewerFleet is a service of the seed pubsub as both projects have it since 23 May 2018: mylxsw/rabbitmq-pubsub-php at 0abcee2,
// mylxsw/rabbitmq-pubsub-java at 98713c0.
type pubSubNewerFleet struct {
	*Program
	delay time.Duration // of the retry queues
	java  bool          // exchanges are master@retry and master@failed, and a message loses its headers when it is given up
}

func (f pubSubNewerFleet) retryExchange() string {
	if f.java {
		return "master@retry"
	}
	return "master.retry"
}

func (f pubSubNewerFleet) failedExchange() string {
	if f.java {
		return "master@failed"
	}
	return "master.failed"
}

// declare makes the three queues of a subscription, led to by the name of the queue.
func (f pubSubNewerFleet) declare(queue, key string) {
	f.b.t.Helper()
	for _, name := range []string{"master", f.retryExchange(), f.failedExchange()} {
		f.Exchange(name, "topic", nil)
	}
	f.Queue(queue, nil)
	f.Queue(queue+"@failed", nil)
	f.Queue(queue+"@retry", amqp091.Table{"x-dead-letter-exchange": "master", "x-dead-letter-routing-key": queue, "x-message-ttl": int32(f.delay.Milliseconds())})
	f.Bind(queue, key, "master")
	f.Bind(queue, queue, "master")
	f.Bind(queue+"@failed", queue, f.failedExchange())
	f.Bind(queue+"@retry", queue, f.retryExchange())
}

// publishedWith is getOrigRoutingKey.
func publishedWith(d amqp091.Delivery) string {
	if key, ok := d.Headers["x-orig-routing-key"].(string); ok {
		return key
	}
	return d.RoutingKey
}

// work consumes as a worker does: what fails is published to the retry exchange or, after more than three retries, to the failed exchange, with
// the queue's name as key; and then, whatever became of that, acked.
func (f pubSubNewerFleet) work(queue string, times int, failing func(amqp091.Delivery) bool) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue, times, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		if failing(d) {
			exchange, m := f.retryExchange(), again(d)
			if retryCount(d) > 3 {
				exchange = f.failedExchange()
				if f.java {
					m.Headers = nil
				}
			}
			if exchange == f.retryExchange() || f.java {
				if m.Headers == nil {
					m.Headers = amqp091.Table{}
				}
				m.Headers["x-orig-routing-key"] = publishedWith(d)
			}
			if err := ch.Publish(exchange, queue, false, false, m); err != nil {
				return err
			}
		}
		return d.Ack(false)
	})
}

// replay is the retryFailed of the project in PHP.
func (f pubSubNewerFleet) replay(queue string) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue+"@failed", 0, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		m := again(d)
		m.Headers = amqp091.Table{"x-orig-routing-key": publishedWith(d)}
		if err := ch.Publish("master", queue, false, false, m); err != nil {
			return err
		}
		return d.Ack(false)
	})
}
