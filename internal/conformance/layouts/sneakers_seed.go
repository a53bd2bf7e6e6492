package layouts

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// sneakersFleet is a worker of Sneakers with the handler Maxretry.
type sneakersFleet struct {
	*Program
	timeout time.Duration // retry_timeout
	retries int64         // retry_max_times
	named   sneakersNames
	// inHeader: the worker is of Sneakers 2.12 or later, or of Kicks, which leave the message unchanged and put the record of its failure into a
	// header. (jondot/sneakers at 9780692, ruby-amqp/kicks at ac8f596.)
	inHeader bool
	quorum   bool // the worker's queue is a quorum queue
	inherits bool // the retry and the error queue have the type of the worker's queue, as with Kicks 3.3 and later
}

// sneakersNames are the handler's options for names: retry_exchange, retry_error_exchange and retry_requeue_exchange.
type sneakersNames struct{ retry, error, requeue string }

// names are those of a queue, by the handler's options or its defaults.
func (f sneakersFleet) names(queue string) sneakersNames {
	return sneakersNames{
		cmp.Or(f.named.retry, queue+"-retry"), cmp.Or(f.named.error, queue+"-error"), cmp.Or(f.named.requeue, queue+"-retry-requeue"),
	}
}

// declare is what a worker and its handler begin with.
func (f sneakersFleet) declare(queue string) {
	f.b.t.Helper()
	n := f.names(queue)
	f.Exchange("sneakers", "direct", nil)
	typed := func(inherits bool, args amqp091.Table) amqp091.Table {
		if f.quorum && inherits {
			args["x-queue-type"] = "quorum"
		}
		return args
	}
	f.Queue(queue, typed(true, amqp091.Table{"x-dead-letter-exchange": n.retry}))
	f.Bind(queue, queue, "sneakers")
	for _, name := range []string{n.retry, n.error, n.requeue} {
		f.Exchange(name, "topic", nil)
	}
	f.Queue(n.retry, typed(f.inherits, amqp091.Table{"x-dead-letter-exchange": n.requeue, "x-message-ttl": int32(f.timeout.Milliseconds())}))
	f.Bind(n.retry, "#", n.retry)
	f.Queue(n.error, typed(f.inherits, amqp091.Table{}))
	f.Bind(n.error, "#", n.error)
	f.Bind(queue, "#", n.requeue)
}

// failureCount is the handler's failure_count: the deaths in the worker's own queue.
func failureCount(d amqp091.Delivery, queue string) (sum int64) {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, e := range deaths {
		entry, _ := e.(amqp091.Table)
		if name, _ := entry["queue"].(string); name == queue {
			count, _ := entry["count"].(int64)
			sum += count
		}
	}
	return sum
}

// work consumes as a worker does: what fails is rejected, and after the last retry published to the error exchange, without a confirm.
func (f sneakersFleet) work(queue string, times int, failing func(amqp091.Delivery) bool) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue, times, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		if !failing(d) {
			return d.Ack(false)
		}
		attempts := failureCount(d, queue) + 1
		if attempts <= f.retries {
			return d.Reject(false)
		}
		m, err := f.wrap(d, attempts)
		if err != nil {
			return err
		}
		if err := ch.Publish(f.names(queue).error, d.RoutingKey, false, false, m); err != nil {
			return err
		}
		return d.Ack(false)
	})
}

// wrap is what a worker publishes of a message that has failed too often.
func (f sneakersFleet) wrap(d amqp091.Delivery, attempts int64) (amqp091.Publishing, error) {
	properties := map[string]any{"delivery_mode": d.DeliveryMode, "priority": d.Priority, "headers": map[string]any{}}
	for name, value := range map[string]string{"message_id": d.MessageId, "content_type": d.ContentType} {
		if value != "" {
			properties[name] = value
		}
	}
	if tenant, ok := d.Headers["tenant"]; ok {
		properties["headers"] = map[string]any{"tenant": tenant}
	}
	doc := map[string]any{
		"error": "reject", "num_attempts": attempts, "failed_at": time.Now().Format(time.RFC3339), "properties": properties,
		"error_class": "RuntimeError", "error_message": "it does not work", "backtrace": []string{"worker.rb:7", "worker.rb:3"},
	}
	m := amqp091.Publishing{DeliveryMode: amqp091.Persistent, ContentType: "application/octet-stream"}
	if f.inHeader {
		text, err := json.Marshal(rubyList(doc, d.Headers["retry_info"]))
		m.Headers, m.Body = amqp091.Table{"retry_info": string(text)}, d.Body
		return m, err
	}
	text, err := json.Marshal(properties)
	if err != nil {
		return m, err
	}
	doc["properties"], doc["payload"], doc["backtrace"] = encode64(text), encode64(d.Body), "worker.rb:7, worker.rb:3"
	m.Body, err = json.Marshal(doc)
	return m, err
}

// rubyList is what a worker makes of the record of a message that has one already: Ruby's Array() of an object is a list of pairs.
func rubyList(record map[string]any, had any) any {
	text, ok := had.(string)
	if !ok {
		return record
	}
	var old any
	if json.Unmarshal([]byte(text), &old) != nil {
		old = map[string]any{"error": "Failed to parse retry info"}
	}
	list := []any{record}
	switch old := old.(type) {
	case []any:
		return append(list, old...)
	case map[string]any:
		for name, value := range old {
			list = append(list, []any{name, value})
		}
	}
	return list
}

// putBack is what a shovel does with failed messages: it publishes the message to its queue with all that it has.
func (f sneakersFleet) putBack(queue string) {
	f.b.t.Helper()
	f.Send("", queue, again(f.Take(f.names(queue).error)))
}

// encode64 is Ruby's Base64.encode64: lines of 60 characters.
func encode64(b []byte) string {
	text := base64.StdEncoding.EncodeToString(b)
	var lines strings.Builder
	for len(text) > 0 {
		n := min(60, len(text))
		lines.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	return lines.String()
}

// decode64 is Ruby's Base64.decode64.
func decode64(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "\n", ""))
	return string(b), err
}
