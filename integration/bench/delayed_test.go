package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// TestDelayedRetry compares what a retry costs the nodes of a cluster: by rehop's steps, which send the message to a queue with a TTL, and by
// RabbitMQ's own delayed retry of quorum queues, since 4.3. Both handle every message twice. What it costs to handle every message once is
// measured too, and taken off.
//
//	REHOP_RABBITMQ=4.3 go test ./bench -run '^TestDelayedRetry$' -count=1 -v -timeout=30m -args -rounds=5 -retries=5000
func TestDelayedRetry(t *testing.T) {
	r := lab.Cluster(t)
	if v := r.Version(); strings.HasPrefix(v, "3.") || strings.HasPrefix(v, "4.0.") {
		t.Skipf("RabbitMQ %s has no delayed retry: REHOP_RABBITMQ=4.3 runs it", v)
	}
	ways := []struct {
		name string
		args amqp.Table // of a queue that is not rehop's
		run  func(d *delayed, queue string)
	}{
		{"once", quorum(), func(d *delayed, queue string) { d.plain(queue, false) }},
		{"steps", nil, (*delayed).steps},
		{"delayed retry", amqp.Table{"x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": wait.Milliseconds(), "x-delayed-retry-max": wait.Milliseconds()},
			func(d *delayed, queue string) { d.plain(queue, true) }},
	}
	spent := make(map[string][]effort)
	for round := range *rounds {
		for i := range ways {
			w := ways[(round+i)%len(ways)]
			queue := fmt.Sprintf("%s %d", w.name, round)
			d := &delayed{t: t, rabbit: r, left: make(chan struct{})}
			d.open.Store(int64(*retries))
			d.fill(queue, w.args)
			before := nodesEffort(t, r)
			w.run(d, queue)
			spent[w.name] = append(spent[w.name], nodesEffort(t, r).minus(before))
		}
	}
	once := typical(spent["once"])
	for _, w := range ways {
		m := typical(spent[w.name])
		t.Logf("%-14s %7.0f µs of processor time and %7.0f bytes written per message, on all nodes", w.name, m.cpu, m.written)
	}
	steps, own := typical(spent["steps"]), typical(spent["delayed retry"])
	t.Logf("a retry by steps costs %.2f of the processor time and %.2f of the bytes of a delayed retry, without what it costs to handle a message once",
		(steps.cpu-once.cpu)/(own.cpu-once.cpu), (steps.written-once.written)/(own.written-once.written))
}

// delayed is one run of a way.
type delayed struct {
	t      *testing.T
	rabbit *lab.Rabbit
	open   atomic.Int64 // messages that are not handled to their end
	left   chan struct{}
}

func (d *delayed) done() {
	if d.open.Add(-1) == 0 {
		close(d.left)
	}
}

// fill declares a queue and publishes to it. nil for arguments: the queue is rehop's.
func (d *delayed) fill(queue string, args amqp.Table) {
	d.t.Helper()
	client := d.client()
	if args == nil {
		sub, err := client.Subscribe(kit.Context(d.t), d.subscription(queue, func(context.Context, *rehop.Delivery) error { return nil }))
		if err != nil {
			d.t.Fatal(err)
		}
		if err := sub.Stop(); err != nil {
			d.t.Fatal(err)
		}
	} else if _, err := d.rabbit.Channel().QueueDeclare(queue, true, false, false, false, args); err != nil {
		d.t.Fatal(err)
	}
	batch := make([]rehop.Message, *retries)
	for i := range batch {
		batch[i] = rehop.Message{Key: queue, Body: make([]byte, *size)}
	}
	if err := client.PublishBatch(kit.Context(d.t), batch); err != nil {
		d.t.Fatal(err)
	}
	d.close(client)
}

func (d *delayed) client() *rehop.Client {
	d.t.Helper()
	client, err := rehop.Open(kit.Context(d.t), rehop.Config{URL: d.rabbit.URL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	return client
}

func (d *delayed) close(client *rehop.Client) {
	d.t.Helper()
	if err := client.Close(kit.Context(d.t)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *delayed) subscription(queue string, handle rehop.HandlerFunc) rehop.Subscriber {
	return rehop.Subscriber{Queue: queue, Retry: rehop.Steps(*wait), Concurrency: *concurrency, Prefetch: *ahead, Handler: handle}
}

// steps fails every message once, and lets it come back by rehop's steps.
func (d *delayed) steps(queue string) {
	d.t.Helper()
	client := d.client()
	defer d.close(client)
	_, err := client.Subscribe(kit.Context(d.t), d.subscription(queue, func(_ context.Context, m *rehop.Delivery) error {
		if m.Attempt == 1 {
			return errors.New("fails once")
		}
		d.done()
		return nil
	}))
	if err != nil {
		d.t.Fatal(err)
	}
	kit.Receive(d.t, d.left, "all messages twice")
}

// plain consumes by hand, and if asked gives every message back once.
func (d *delayed) plain(queue string, again bool) {
	d.t.Helper()
	ch := d.rabbit.Channel()
	if err := ch.Qos(*ahead, 0, false); err != nil {
		d.t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for open := d.open.Load(); open > 0; {
		m := kit.Receive(d.t, deliveries, "a delivery")
		if again && !m.Redelivered {
			err = m.Reject(true)
		} else {
			open--
			err = m.Ack(false)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	if err := ch.Cancel("", false); err != nil {
		d.t.Fatal(err)
	}
	if err := ch.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// effort is what the nodes have done for one message: microseconds of processor time, and bytes written to disk.
type effort struct{ cpu, written float64 }

func (e effort) minus(before effort) effort {
	n := float64(*retries)
	return effort{(e.cpu - before.cpu) / n, (e.written - before.written) / n}
}

// typical is the median of each value by itself.
func typical(all []effort) effort {
	var cpu, written []float64
	for _, e := range all {
		cpu, written = append(cpu, e.cpu), append(written, e.written)
	}
	return effort{median(cpu), median(written)}
}

// nodesEffort is what the processes of all nodes have used so far.
func nodesEffort(t *testing.T, r *lab.Rabbit) (all effort) {
	t.Helper()
	var nodes []struct {
		PID string `json:"os_pid"`
	}
	r.API("GET", "/api/nodes", nil, &nodes)
	for _, n := range nodes {
		stat, err := os.ReadFile("/proc/" + n.PID + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		// The name of the program, in brackets, may have spaces. Behind it, fields 12 and 13 are ticks of 10 ms.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, ticks := range fields[11:13] {
			all.cpu += number(t, ticks) * float64((10 * time.Millisecond).Microseconds())
		}
		io, err := os.ReadFile("/proc/" + n.PID + "/io")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(io), "\nwrite_bytes: ")
		text, _, _ := strings.Cut(after, "\n")
		all.written += number(t, text)
	}
	return all
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
