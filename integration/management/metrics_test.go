package management

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
)

// metrics is what Prometheus gets.
func metrics(p *place) string {
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
	return string(content)
}

// lacking are words in the labels of what the embedded broker does not have: streams, AMQP 1.0, and queues within a channel.
var lacking = []string{"stream", "amqp10", "rabbit_volatile_queue"}

// counters reads all counters that are there, by name and labels.
func counters(p *place) map[string]float64 {
	p.t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(metrics(p)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		bare, _, _ := strings.Cut(name, "{")
		if !ok || !strings.HasSuffix(bare, "_total") || slices.ContainsFunc(lacking, func(word string) bool { return strings.Contains(name, word) }) {
			continue
		}
		switch {
		case strings.HasPrefix(name, "rabbitmq_global_"), strings.HasPrefix(name, "rabbitmq_connections_"), strings.HasPrefix(name, "rabbitmq_channels_"), strings.HasPrefix(name, "rabbitmq_queues_"):
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				p.t.Fatalf("metrics: %s: %v", line, err)
			}
			all[name] = n
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
		"lost":   {"x-dead-letter-exchange": "nowhere", "x-max-length": int32(1)},
		"missed": {"x-queue-type": "quorum", "x-dead-letter-exchange": "nowhere"},
		"fickle": letters(amqp.Table{"x-queue-type": "quorum", "x-max-length": int32(1), "x-dead-letter-strategy": "at-least-once"}),
		"kept":   letters(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1), "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}),
	}
	for name, args := range queues {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		must(err)
	}
	_, err = ch.QueueDeclare("dead", true, false, false, false, nil)
	must(err)
	// What fails is counted, too, and closes the channel.
	for _, fail := range []func(ch *amqp.Channel) error{
		func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("dead", false, false, false, false, nil)
			return err
		},
		func(ch *amqp.Channel) error {
			must(ch.Publish("no such exchange", "", false, false, amqp.Publishing{}))
			_, err := ch.QueueDeclarePassive("dead", true, false, false, false, nil)
			return err
		},
	} {
		doomed, err := conn.Channel()
		must(err)
		if err := fail(doomed); err == nil {
			p.t.Fatal("what is wrong was taken")
		}
	}
	tx, err := conn.Channel()
	must(err)
	must(tx.Tx())
	must(tx.Publish("", "dead", false, false, amqp.Publishing{}))
	must(tx.TxRollback())
	must(tx.Publish("", "nowhere", false, false, amqp.Publishing{}))
	must(tx.TxCommit())
	must(tx.Close())
	must(ch.ExchangeDeclare("all", "fanout", true, false, false, false, nil))
	must(ch.QueueBind("mortal", "", "all", false, nil))
	must(ch.QueueBind("once", "", "all", false, nil))

	dead, err := ch.Consume("dead", "", false, false, false, false, nil)
	must(err)
	deadLetter := func() {
		p.t.Helper()
		must(await(p, dead, "dead letter").Ack(false))
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
	await(p, returned, "returned message")
	publish("", "nowhere", "", false)
	publish("", "nowhere", "", false)
	publish("all", "", "", false) // to two queues
	publish("", "plain", "", false)
	publish("", "mortal", "", false)
	deadLetter() // the one that was too many
	publish("", "fickle", "", false)
	publish("", "fickle", "", false)
	deadLetter()
	for _, name := range []string{"quorum", "kept", "lost", "missed"} {
		publish("", name, "", false)
	}
	for name, args := range queues {
		if name == "dead" {
			continue
		}
		deadLettered := args["x-dead-letter-exchange"] == ""
		must(get(name, false, true).Nack(false, true))
		must(get(name, false, true).Reject(false))
		if deadLettered {
			deadLetter()
			publish("", name, "1", false)
			deadLetter()
		}
		if args["x-delivery-limit"] != nil {
			publish("", name, "", false)
			must(get(name, false, true).Reject(true)) // which every release counts
			must(get(name, false, true).Reject(true))
			if deadLettered {
				deadLetter()
			}
		}
		get(name, false, false)
		publish("", name, "", false)
		get(name, true, true)
		for _, autoAck := range []bool{true, false} {
			publish("", name, "", false)
			deliveries, err := ch.Consume(name, name, autoAck, false, false, false, nil)
			must(err)
			d := await(p, deliveries, "delivery")
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

// await returns what comes.
func await[T any](p *place, from <-chan T, what string) T {
	p.t.Helper()
	select {
	case v, ok := <-from:
		if ok {
			return v
		}
		p.t.Fatalf("no %s will come: the channel is closed", what)
	case <-time.After(settle):
		p.t.Fatalf("no %s has come", what)
	}
	panic("unreachable")
}

// TestCounters: both brokers count the same. It runs alone, because others would be counted, too. What closes is counted a little later.
func TestCounters(t *testing.T) {
	ours, theirs := rise(embedded(t)), rise(rabbitMQ(t))
	var wrong []string
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(wrong, "\n"))
		}
	}()
	lab.Eventually(t, settle, "both have counted the same", func() bool {
		wrong = differences(ours(), theirs())
		return len(wrong) == 0
	})
}

// rise plays the story on a broker, and returns by how much its counters have risen since before.
func rise(p *place) func() map[string]float64 {
	p.t.Helper()
	before := counters(p)
	lab.Eventually(p.t, settle, "nothing more is counted", func() bool {
		last := before
		before = counters(p)
		return maps.Equal(before, last)
	})
	life(p)
	return func() map[string]float64 {
		p.t.Helper()
		now := counters(p)
		for name := range now {
			now[name] -= before[name]
		}
		return now
	}
}

// differences are the counters that are not the same.
func differences(ours, theirs map[string]float64) (all []string) {
	theirs["rabbitmq_queues_deleted_total"] -= float64(quorumQueues) // RabbitMQ 3.10 counts those twice
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if n, ok := ours[name]; !ok || n != theirs[name] {
			all = append(all, fmt.Sprintf("%s: got %v, RabbitMQ has %v", name, n, theirs[name]))
		}
	}
	for name := range ours {
		if _, ok := theirs[name]; !ok {
			all = append(all, fmt.Sprintf("RabbitMQ has no %s", name))
		}
	}
	return all
}

// quorumQueues is how many there are in the story.
const quorumQueues = 5

// TestPresent: who publishes and who consumes is counted while it is there. (RabbitMQ 3.10 does not forget channels that have published.)
func TestPresent(t *testing.T) {
	t.Parallel()
	p := embedded(t)
	gauges := func() string {
		var found []string
		for line := range strings.Lines(metrics(p)) {
			if strings.HasPrefix(line, "rabbitmq_global_publishers") || strings.HasPrefix(line, "rabbitmq_global_consumers") || strings.HasPrefix(line, "rabbitmq_queue_consumers ") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		slices.Sort(found)
		return strings.ReplaceAll(strings.Join(found, ", "), `{protocol="amqp091"}`, "")
	}
	want := func(publishers, consumers, counted int) {
		t.Helper()
		what := fmt.Sprintf("rabbitmq_global_consumers %d, rabbitmq_global_publishers %d, rabbitmq_queue_consumers %d", consumers, publishers, counted)
		lab.Eventually(t, settle, what, func() bool { return gauges() == what })
	}
	ch := p.channel()
	if _, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	want(0, 0, 0)
	if err := ch.Publish("", "q", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume("q", "tag", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := await(p, deliveries, "delivery")
	want(1, 1, 1)
	if err := ch.Cancel("tag", false); err != nil {
		t.Fatal(err)
	}
	want(1, 0, 1)
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	want(1, 0, 0)
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	want(0, 0, 0)
}
