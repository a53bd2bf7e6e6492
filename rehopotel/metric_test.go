package rehopotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/rehopotel"
	"github.com/rehop/rehop/rehoptest"
)

// measured has telemetry whose metrics can be read.
type measured struct {
	t         *testing.T
	reader    *metric.ManualReader
	config    rehopotel.Config
	telemetry *rehopotel.Telemetry
	client    rehop.Hooks
	outbox    outbox.Hooks
}

func measure(t *testing.T) *measured {
	t.Helper()
	reader := metric.NewManualReader()
	config := rehopotel.Config{Meters: metric.NewMeterProvider(metric.WithReader(reader))}
	telemetry, err := rehopotel.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &measured{t, reader, config, telemetry, telemetry.Client(), telemetry.Outbox()}
}

// values are all data points, as name{attributes} without messaging.system, and their values; of histograms, how many were recorded.
func (m *measured) values() map[string]float64 {
	m.t.Helper()
	var data metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &data); err != nil {
		m.t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, scope := range data.ScopeMetrics {
		for _, one := range scope.Metrics {
			switch points := one.Data.(type) {
			case metricdata.Sum[int64]:
				collect(found, one.Name, points.DataPoints)
			case metricdata.Gauge[int64]:
				collect(found, one.Name, points.DataPoints)
			case metricdata.Gauge[float64]:
				collect(found, one.Name, points.DataPoints)
			case metricdata.Histogram[float64]:
				for _, p := range points.DataPoints {
					found[label(one.Name, p.Attributes.Encoded(attributeEncoder{}))] = float64(p.Count)
				}
			default:
				m.t.Fatalf("metric %s is a %T", one.Name, points)
			}
		}
	}
	return found
}

func collect[N int64 | float64](into map[string]float64, name string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		into[label(name, p.Attributes.Encoded(attributeEncoder{}))] = float64(p.Value)
	}
}

func label(name, attributes string) string { return name + "{" + attributes + "}" }

func (m *measured) want(want map[string]float64) {
	m.t.Helper()
	got := m.values()
	for name, value := range want {
		if found, there := got[name]; !there || found != value {
			names := make([]string, 0, len(got))
			for name, value := range got {
				names = append(names, fmt.Sprintf("%s %v", name, value))
			}
			slices.Sort(names)
			m.t.Errorf("%s is %v (there: %t), want %v; there are\n%s", name, found, there, value, strings.Join(names, "\n"))
		}
	}
}

// The counters of a client over messages that are done, retried, failed, discarded and returned to their publisher.
func TestMetricsOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t)
		b := rehoptest.Open(t, withHooks(m.client))
		_, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Exchange: "shop", Keys: []string{"#"}, Retry: rehop.Steps(time.Minute, time.Hour),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				switch d.Key {
				case "key.retried":
					if d.Attempt == 1 {
						return errNotYet
					}
				case "key.failed":
					return errNotYet
				case "key.discarded":
					return rehop.Discard(errNotYet)
				}
				return nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"key.done", "key.done", "key.retried", "key.failed", "key.discarded"} {
			if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "shop", Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Client.Publish(t.Context(), rehop.Message{Key: "key.nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
			t.Fatalf("got %v, want ErrUnroutable", err)
		}
		b.AwaitFailed("orders", 1)
		b.AwaitEmpty("orders")
		synctest.Wait()
		const process = "messaging.destination.name=orders,messaging.operation.name=process,messaging.operation.type=process"
		m.want(map[string]float64{
			"messaging.client.sent.messages{messaging.destination.name=shop,messaging.operation.name=publish,messaging.operation.type=send}":                            5,
			"messaging.client.sent.messages{error.type=unroutable,messaging.destination.name=(default),messaging.operation.name=publish,messaging.operation.type=send}": 1,
			"messaging.client.operation.duration{messaging.destination.name=shop,messaging.operation.name=publish,messaging.operation.type=send}":                       5,
			"messaging.client.operation.duration{messaging.destination.name=orders,messaging.operation.name=retry,messaging.operation.type=settle}":                     3,
			"messaging.process.duration{" + process + "}":                                               3,
			"messaging.process.duration{error.type=error," + process + "}":                              5,
			"messaging.client.consumed.messages{" + process + ",rehop.outcome=done}":                    3,
			"messaging.client.consumed.messages{error.type=error," + process + ",rehop.outcome=retry}":  3,
			"messaging.client.consumed.messages{error.type=error," + process + ",rehop.outcome=failed}": 1,
			"messaging.client.consumed.messages{" + process + ",rehop.outcome=discarded}":               1,
			"rehop.retries{rehop.kind=error,rehop.queue=orders}":                                        3,
			"rehop.failed{rehop.kind=error,rehop.queue=orders}":                                         1,
			"rehop.retry.age{rehop.queue=orders}":                                                       3,
			"rehop.unroutable{rehop.exchange=(default)}":                                                1,
			"rehop.handlers.in_flight{rehop.queue=orders}":                                              0,
			"rehop.consumers{rehop.queue=orders,rehop.state=up}":                                        1,
			"rehop.connections{rehop.connection=publish,rehop.state=OPEN}":                              1,
			"rehop.connections{rehop.connection=publish,rehop.state=BLOCKED}":                           0,
		})
		for name := range m.values() {
			if strings.Contains(name, "key.") {
				t.Errorf("%s has a routing key among its attributes", name)
			}
		}
	})
}

// What stands: connections, subscriptions, pauses.
func TestMetricsOfStanding(t *testing.T) {
	m := measure(t)
	for _, state := range []rehop.State{rehop.StateRecovering, rehop.StateOpen, rehop.StateBlocked, rehop.StateBlocked} {
		m.client.OnState(rehop.StateChange{Connection: "publish", State: state})
	}
	m.client.OnState(rehop.StateChange{Connection: "consume", State: rehop.StateOpen})
	m.client.OnConsumer(rehop.ConsumerEvent{Queue: "never"})
	for _, up := range []bool{true, false, false, true} {
		m.client.OnConsumer(rehop.ConsumerEvent{Queue: "q", Up: up})
	}
	m.client.OnPause(rehop.PauseEvent{Queue: "q", Paused: true})
	m.client.OnHeld(rehop.HeldEvent{Queue: "q", Owner: true, Messages: 3, Keys: 2, Blocked: 1, Stalled: true})
	m.client.OnStuck(rehop.StuckHandler{Queue: "q"})
	m.client.OnStuck(rehop.StuckHandler{Queue: "q", Returned: true})
	m.want(map[string]float64{
		"rehop.connections{rehop.connection=publish,rehop.state=BLOCKED}":    1,
		"rehop.connections{rehop.connection=publish,rehop.state=OPEN}":       0,
		"rehop.connections{rehop.connection=publish,rehop.state=RECOVERING}": 0,
		"rehop.connections{rehop.connection=consume,rehop.state=OPEN}":       1,
		"rehop.consumers{rehop.queue=q,rehop.state=up}":                      1,
		"rehop.consumers{rehop.queue=q,rehop.state=down}":                    0,
		"rehop.consumers{rehop.queue=never,rehop.state=up}":                  0,
		"rehop.consumers{rehop.queue=never,rehop.state=down}":                1,
		"rehop.paused{rehop.queue=q}":                                        1,
		"rehop.handlers.stuck{rehop.queue=q}":                                1,
		"rehop.held.messages{rehop.queue=q}":                                 3,
		"rehop.held.keys{rehop.queue=q}":                                     2,
		"rehop.held.blocked{rehop.queue=q}":                                  1,
		"rehop.held.stalled{rehop.queue=q}":                                  1,
		"rehop.held.oldest{rehop.queue=q}":                                   0,
	})
	m.client.OnState(rehop.StateChange{Connection: "consume", State: rehop.StateClosed})
	m.want(map[string]float64{
		"rehop.consumers{rehop.queue=q,rehop.state=up}":                0,
		"rehop.consumers{rehop.queue=never,rehop.state=down}":          0,
		"rehop.paused{rehop.queue=q}":                                  0,
		"rehop.connections{rehop.connection=consume,rehop.state=OPEN}": 0,
	})
	m.client.OnState(rehop.StateChange{Connection: "publish", State: rehop.StateClosed})
	for name, n := range m.values() {
		if strings.HasPrefix(name, "rehop.connections{") && n != 0 {
			t.Errorf("%s is %v, want 0: all are closed", name, n)
		}
	}
}

// The oldest message that waits in order has the age that it has when the event comes, and none when nothing has failed.
func TestAgeOfTheOldestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t)
		failed := time.Now()
		for _, c := range []struct {
			event rehop.HeldEvent
			want  float64
		}{
			{rehop.HeldEvent{Queue: "q", Owner: true, Messages: 1, Oldest: failed}, 90},
			{rehop.HeldEvent{Queue: "q", Owner: true, Messages: 1, Oldest: failed}, 180},
			{rehop.HeldEvent{Queue: "q", Owner: true, Messages: 1}, 0},
		} {
			time.Sleep(90 * time.Second)
			m.client.OnHeld(c.event)
			m.want(map[string]float64{"rehop.held.oldest{rehop.queue=q}": c.want})
		}
	})
}

// consuming reports subscriptions that receive.
type consuming chan rehop.ConsumerEvent

func (c consuming) OnConsumer(e rehop.ConsumerEvent) { c <- e }

// A subscription that has ended is not counted any more, unless the client has another one to the queue.
func TestMetricsOfAnEnd(t *testing.T) {
	m := measure(t)
	told := make(consuming, 4)
	b := rehoptest.Open(t, withHooks(m.client), withHooks(rehop.Hooks{OnConsumer: told.OnConsumer}))
	subscribe := func() *rehop.Subscription {
		sub, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
		if err != nil {
			t.Fatal(err)
		}
		<-told
		return sub
	}
	first, second := subscribe(), subscribe()
	for i, sub := range []*rehop.Subscription{first, second} {
		if err := sub.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.want(map[string]float64{"rehop.consumers{rehop.queue=q,rehop.state=up}": float64(1 - i), "rehop.consumers{rehop.queue=q,rehop.state=down}": 0})
	}
}

func TestMetricsOfTheOutbox(t *testing.T) {
	m := measure(t)
	m.outbox.OnBacklog(outbox.Backlog{Ready: 9, Delayed: 1})
	m.outbox.OnBacklog(outbox.Backlog{Ready: 3, Retrying: 5, Delayed: 2, SetAside: 1, Kept: 4, Oldest: 90 * time.Second})
	m.outbox.OnBatch(outbox.Batch{Published: 5, Retry: 1, Took: time.Second})
	m.outbox.OnBatch(outbox.Batch{Published: 2, SetAside: 1, Left: 3, Took: time.Second})
	m.outbox.OnLease(outbox.Lease{Gained: true, Shards: []int{1, 2, 3}, Of: 8})
	m.outbox.OnLease(outbox.Lease{Shards: []int{2}, Of: 8})
	m.outbox.OnFault(errNotYet)
	m.outbox.OnSpill(t.Context(), &rehop.Message{Exchange: "shop"}, errNotYet)
	m.want(map[string]float64{
		"rehop.outbox.messages{rehop.state=ready}":      3,
		"rehop.outbox.messages{rehop.state=retrying}":   5,
		"rehop.outbox.messages{rehop.state=delayed}":    2,
		"rehop.outbox.messages{rehop.state=set_aside}":  1,
		"rehop.outbox.messages{rehop.state=kept}":       4,
		"rehop.outbox.oldest{}":                         90,
		"rehop.outbox.relayed{rehop.outcome=published}": 7,
		"rehop.outbox.relayed{rehop.outcome=retry}":     1,
		"rehop.outbox.relayed{rehop.outcome=set_aside}": 1,
		"rehop.outbox.relayed{rehop.outcome=left}":      3,
		"rehop.outbox.batch.duration{}":                 2,
		"rehop.outbox.shards{}":                         2,
		"rehop.outbox.faults{}":                         1,
		"rehop.outbox.spilled{rehop.exchange=shop}":     1,
	})
}

// A message that an inbox has seen before is counted by its queue.
func TestMetricsOfTheInbox(t *testing.T) {
	m := measure(t)
	m.telemetry.Duplicate(t.Context(), "mailer", &rehop.Delivery{Queue: "q"})
	m.want(map[string]float64{"rehop.inbox.duplicates{rehop.queue=q}": 1})
}

// Clients that share a Telemetry are counted together, and one that ends does not end the other.
func TestMetricsOfTwoClients(t *testing.T) {
	m := measure(t)
	other := m.telemetry.Client()
	for _, hooks := range []rehop.Hooks{m.client, other} {
		hooks.OnState(rehop.StateChange{Connection: "publish", State: rehop.StateOpen})
		hooks.OnConsumer(rehop.ConsumerEvent{Queue: "q", Up: true})
	}
	open, up := "rehop.connections{rehop.connection=publish,rehop.state=OPEN}", "rehop.consumers{rehop.queue=q,rehop.state=up}"
	m.want(map[string]float64{open: 2, up: 2})
	other.OnState(rehop.StateChange{Connection: "publish", State: rehop.StateClosed})
	other.OnConsumer(rehop.ConsumerEvent{Queue: "q", Ended: true})
	m.want(map[string]float64{open: 1, up: 1})
}

// Where a process has several outboxes, each has a name.
func TestNamedOutbox(t *testing.T) {
	m := measure(t)
	for _, name := range []string{"orders", "payments"} {
		config := m.config
		config.Outbox = name
		telemetry, err := rehopotel.New(config)
		if err != nil {
			t.Fatal(err)
		}
		telemetry.Outbox().OnBacklog(outbox.Backlog{Ready: len(name)})
	}
	m.want(map[string]float64{
		"rehop.outbox.messages{rehop.outbox=orders,rehop.state=ready}":   6,
		"rehop.outbox.messages{rehop.outbox=payments,rehop.state=ready}": 8,
	})
}

// overview is a broker that can be looked at.
type overview func() (admin.Overview, error)

func (o overview) Queues(context.Context) (admin.Overview, error) { return o() }

func TestWatch(t *testing.T) {
	m := measure(t)
	before := m.values()
	seen, fault := admin.Overview{Orphans: 1, Unrouted: 2, DelayQueues: []admin.QueueSize{{Name: "rehop.step.10s", Messages: 3}},
		Queues: []admin.Queue{{Name: "q", Ready: 4, Unacked: 5, Consumers: 6, Waiting: -1, Failed: 7}}}, error(nil)
	registration, err := rehopotel.Watch(overview(func() (admin.Overview, error) { return seen, fault }), m.config)
	if err != nil {
		t.Fatal(err)
	}
	m.want(map[string]float64{
		"rehop.queue.messages{rehop.queue=q,rehop.state=ready}":   4,
		"rehop.queue.messages{rehop.queue=q,rehop.state=unacked}": 5,
		"rehop.queue.messages{rehop.queue=q,rehop.state=failed}":  7,
		"rehop.queue.consumers{rehop.queue=q}":                    6,
		"rehop.waiting.messages{rehop.wait=rehop.step.10s}":       3,
		"rehop.orphans.messages{}":                                1,
		"rehop.unrouted.messages{}":                               2,
	})
	fault = errors.New("the management API is away")
	var data metricdata.ResourceMetrics
	if err := m.reader.Collect(t.Context(), &data); !errors.Is(err, fault) {
		t.Errorf("collecting from a broker that is away: %v, want %v", err, fault)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := m.values(); !maps.Equal(got, before) {
		t.Errorf("after the end of the watch there are %v, want what was there before, %v", got, before)
	}
}

// Counters are there with 0 before the first event, wherever it is known what they will be about: Prometheus sees no increase in a counter
// that appears.
func TestZeros(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t)
		m.want(map[string]float64{"rehop.unroutable{rehop.exchange=(default)}": 0})
		b := rehoptest.Open(t, withHooks(m.client), rehoptest.WithConfig(func(c *rehop.Config) { c.Exchanges = []rehop.Exchange{{Name: "shop"}} }))
		done := rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
		if _, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Exchange: "others", Handler: done}); err != nil {
			t.Fatal(err)
		}
		if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "others", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		m.outbox.OnLease(outbox.Lease{Gained: true, Shards: []int{1}})
		synctest.Wait()
		m.want(map[string]float64{
			"rehop.unroutable{rehop.exchange=shop}":    0,
			"rehop.unroutable{rehop.exchange=others}":  0,
			"rehop.handlers.stuck{rehop.queue=orders}": 0,
			"rehop.outbox.faults{}":                    0,
		})
		named, err := rehopotel.New(rehopotel.Config{Meters: m.config.Meters, Outbox: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		m.want(map[string]float64{"rehop.outbox.faults{rehop.outbox=shop}": 0})
		named.Outbox().OnFault(errNotYet)
		m.want(map[string]float64{"rehop.outbox.faults{rehop.outbox=shop}": 1})
	})
}
