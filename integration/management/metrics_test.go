package management

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// counters reads all counters that are there, by name and labels.
func counters(p *place) map[string]float64 {
	p.t.Helper()
	r, err := http.NewRequest("GET", p.prometheus, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		p.t.Fatalf("metrics: got %s, %v: %s", answer.Status, err, content)
	}
	all := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(string(content))); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		bare, _, _ := strings.Cut(name, "{")
		if !ok || !strings.HasSuffix(bare, "_total") || strings.Contains(name, "stream") {
			continue
		}
		switch {
		case strings.HasPrefix(name, "rabbitmq_global_"), strings.HasPrefix(name, "rabbitmq_connections_"), strings.HasPrefix(name, "rabbitmq_channels_"), strings.HasPrefix(name, "rabbitmq_queues_"):
			if all[name], err = strconv.ParseFloat(value, 64); err != nil {
				p.t.Fatalf("metrics: %s: %v", lines.Text(), err)
			}
		}
	}
	return all
}

// life is a little of everything that is counted. It has ended when it returns, and leaves nothing behind.
func life(p *place) {
	p.t.Helper()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	conn, err := p.dial("guest", "guest", p.vhost)
	must(err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(err)
	letters := func(more amqp.Table) amqp.Table {
		all := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
		maps.Copy(all, more)
		return all
	}
	queues := map[string]amqp.Table{
		"dead":   nil,
		"plain":  {"x-max-length": int32(1)},
		"mortal": letters(amqp.Table{"x-max-length": int32(1)}),
		"quorum": {"x-queue-type": "quorum", "x-delivery-limit": int32(1)},
		"once":   letters(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1)}),
		"kept":   letters(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1), "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}),
	}
	for name, args := range queues {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		must(err)
	}
	_, err = ch.QueueDeclare("dead", true, false, false, false, nil)
	must(err)
	must(ch.ExchangeDeclare("all", "fanout", true, false, false, false, nil))
	must(ch.QueueBind("mortal", "", "all", false, nil))
	must(ch.QueueBind("once", "", "all", false, nil))

	dead, err := ch.Consume("dead", "", false, false, false, false, nil)
	must(err)
	bury := func() {
		p.t.Helper()
		select {
		case d := <-dead:
			must(d.Ack(false))
		case <-time.After(settle):
			p.t.Fatal("a dead letter has not come")
		}
	}
	must(ch.Publish("", "plain", false, false, amqp.Publishing{Body: []byte("nobody waits for this")}))
	must(ch.Confirm(false))
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	publish := func(exchange, key, expiration string, mandatory bool) {
		p.t.Helper()
		c, err := ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, amqp.Publishing{Body: []byte("x"), DeliveryMode: 2, Expiration: expiration})
		must(err)
		if !c.Wait() {
			p.t.Fatalf("a message to %s was refused", key)
		}
	}
	get := func(queue string, autoAck, some bool) amqp.Delivery {
		p.t.Helper()
		d, ok, err := ch.Get(queue, autoAck)
		must(err)
		if ok != some {
			p.t.Fatalf("%s: there is a message: %t, want %t", queue, ok, some)
		}
		return d
	}

	publish("", "nowhere", "", true)
	<-returned
	publish("", "nowhere", "", false)
	publish("", "nowhere", "", false)
	publish("all", "", "", false) // to two queues
	publish("", "plain", "", false)
	publish("", "mortal", "", false)
	bury() // the one that was too many
	publish("", "quorum", "", false)
	publish("", "kept", "", false)
	for name, args := range queues {
		if name == "dead" {
			continue
		}
		_, buried := args["x-dead-letter-exchange"]
		must(get(name, false, true).Nack(false, true))
		must(get(name, false, true).Reject(false))
		if buried {
			bury()
			publish("", name, "1", false)
			bury()
		}
		if args["x-queue-type"] == "quorum" {
			publish("", name, "", false)
			must(get(name, false, true).Nack(false, true))
			must(get(name, false, true).Nack(false, true))
			if buried {
				bury()
			}
		}
		get(name, false, false)
		publish("", name, "", false)
		get(name, true, true)
		for _, autoAck := range []bool{true, false} {
			publish("", name, "", false)
			deliveries, err := ch.Consume(name, name, autoAck, false, false, false, nil)
			must(err)
			d := <-deliveries
			if !autoAck {
				must(d.Ack(false))
			}
			must(ch.Cancel(name, false))
		}
	}
	for name := range queues {
		_, err := ch.QueueDelete(name, false, false, false)
		must(err)
	}
	must(ch.ExchangeDelete("all", false, false))
	must(ch.Close())
	must(conn.Close())
}

// TestCounters: both brokers count the same. It runs alone, because others would be counted, too.
func TestCounters(t *testing.T) {
	ours, theirs := counted(embedded(t)), counted(rabbitMQ(t))
	theirs["rabbitmq_queues_deleted_total"] -= 3 // RabbitMQ 3.10 counts quorum queues twice
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if n, ok := ours[name]; !ok || n != theirs[name] {
			t.Errorf("%s: got %v, RabbitMQ has %v", name, n, theirs[name])
		}
	}
	for name := range ours {
		if _, ok := theirs[name]; !ok {
			t.Errorf("RabbitMQ has no %s", name)
		}
	}
}

// counted is by how much counters rise with a life.
func counted(p *place) map[string]float64 {
	p.t.Helper()
	before := counters(p)
	life(p)
	after := counters(p)
	for name := range after {
		after[name] -= before[name]
	}
	return after
}
