package layouts

import (
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// pubSubFleet is a service of the seed pubsub in its older form, as both projects had it from 13 to 23 May 2018.
type pubSubFleet struct {
	*Program
	delay time.Duration // of the retry queues
	php   bool          // its workers publish what has failed for good with all its headers; those in Java do not
}

// declareExchanges is what publishers and consumers begin with.
func (f pubSubFleet) declareExchanges() {
	f.b.t.Helper()
	for _, name := range []string{"master", "master.retry", "master.failed"} {
		f.Exchange(name, "topic", nil)
	}
}

// declare makes the three queues of a subscription and their bindings.
func (f pubSubFleet) declare(queue string, keys ...string) {
	f.b.t.Helper()
	f.declareExchanges()
	f.Queue(queue, nil)
	f.Queue(queue+"@failed", nil)
	f.Queue(queue+"@retry", amqp091.Table{"x-dead-letter-exchange": "master", "x-message-ttl": int32(f.delay.Milliseconds())})
	for _, key := range keys {
		f.Bind(queue, key, "master")
		f.Bind(queue+"@retry", key, "master.retry")
		f.Bind(queue+"@failed", key, "master.failed")
	}
}

// retryCount is the seed's getRetryCount.
func retryCount(d amqp091.Delivery) int64 {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return 0
	}
	newest, _ := deaths[0].(amqp091.Table)
	count, _ := newest["count"].(int64)
	return count
}

// work consumes as the seed's worker does: what fails is published to the retry exchange with all its properties or, after more than three
// retries, to the failed exchange; and then, whatever became of that, acked.
func (f pubSubFleet) work(queue string, times int, failing func(amqp091.Delivery) bool) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue, times, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		if failing(d) {
			exchange, m := "master.retry", again(d)
			if retryCount(d) > 3 {
				exchange = "master.failed"
				if !f.php {
					m = persistent(string(d.Body))
				}
			}
			if err := ch.Publish(exchange, d.RoutingKey, false, false, m); err != nil {
				return err
			}
		}
		return d.Ack(false)
	})
}

// replay is what the seed does with the messages of a failed queue when the program is fixed: publish them to the main exchange
// with their headers cleared.
func (f pubSubFleet) replay(queue string) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue+"@failed", 0, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		m := again(d)
		m.Headers = amqp091.Table{}
		if err := ch.Publish("master", d.RoutingKey, false, false, m); err != nil {
			return err
		}
		return d.Ack(false)
	})
}

func always(amqp091.Delivery) bool { return true }
func never(amqp091.Delivery) bool  { return false }

// firstTime is true for a message that was never retried.
func firstTime(d amqp091.Delivery) bool { return retryCount(d) == 0 }
