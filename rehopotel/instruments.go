package rehopotel

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
)

// Attributes of rehop's own. Metrics have none whose values grow with the traffic: no ids, no routing keys.
const (
	keyQueue      = attribute.Key("rehop.queue")
	keyExchange   = attribute.Key("rehop.exchange")
	keyOutcome    = attribute.Key("rehop.outcome")
	keyKind       = attribute.Key("rehop.kind")
	keyState      = attribute.Key("rehop.state")
	keyConnection = attribute.Key("rehop.connection")
	keyOutbox     = attribute.Key("rehop.outbox")
	keyWait       = attribute.Key("rehop.wait")

	// Of spans alone.
	keyAttempt     = attribute.Key("rehop.attempt")
	keyMaxAttempts = attribute.Key("rehop.max_attempts")
	keyReplays     = attribute.Key("rehop.replays")
	keyRedelivered = attribute.Key("rehop.redelivered")
	keyDelay       = attribute.Key("rehop.delay")
)

// instruments are what a Telemetry counts with.
type instruments struct {
	sent      messagingconv.ClientSentMessages
	consumed  messagingconv.ClientConsumedMessages
	operation messagingconv.ClientOperationDuration
	process   messagingconv.ProcessDuration

	retries     metric.Int64Counter
	failed      metric.Int64Counter
	retryAge    metric.Float64Histogram
	unrouted    metric.Int64Counter
	inFlight    metric.Int64UpDownCounter
	stuck       metric.Int64Counter
	connections metric.Int64UpDownCounter
	consumers   metric.Int64UpDownCounter
	paused      metric.Int64UpDownCounter

	backlog     metric.Int64Gauge
	oldest      metric.Float64Gauge
	relayed     metric.Int64Counter
	batch       metric.Float64Histogram
	leases      metric.Int64UpDownCounter
	relayFaults metric.Int64Counter
	spilled     metric.Int64Counter
	duplicates  metric.Int64Counter
}

// How long things take, in seconds: operations from half a millisecond on, ages of retries up to three days.
var (
	short = metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	long  = metric.WithExplicitBucketBoundaries(1, 10, 60, 300, 900, 3600, 3*3600, 6*3600, 12*3600, 24*3600, 72*3600)
)

func newInstruments(m metric.Meter) (*instruments, error) {
	w := workshop{meter: m}
	i := &instruments{
		retries:     w.counter("rehop.retries", "{message}", "Messages that were sent to wait for their next attempt"),
		failed:      w.counter("rehop.failed", "{message}", "Messages that came to rest in a failed queue"),
		retryAge:    w.histogram("rehop.retry.age", long, "How long after its first failure a message is tried again"),
		unrouted:    w.counter("rehop.unrouted", "{message}", "Messages that were returned because no queue was bound for them"),
		inFlight:    w.upDown("rehop.handlers.in_flight", "{handler}", "Handlers that run now"),
		stuck:       w.counter("rehop.handlers.stuck", "{event}", "Reports of handlers that ignore their canceled context"),
		connections: w.upDown("rehop.connections", "{connection}", "Connections of clients, by their state"),
		consumers:   w.upDown("rehop.consumers", "{consumer}", "Subscriptions that receive (up), and that should and do not (down)"),
		paused:      w.upDown("rehop.paused", "{subscription}", "Subscriptions that pause because what their handler needs is down"),

		backlog:     w.gauge("rehop.outbox.messages", "{message}", "Messages in the outbox, by their state"),
		oldest:      w.seconds("rehop.outbox.oldest", "For how long the oldest message that is to be published now, or is tried again, has been in the outbox"),
		relayed:     w.counter("rehop.outbox.relayed", "{message}", "Messages that a relay has read, by what became of them"),
		batch:       w.histogram("rehop.outbox.batch.duration", short, "How long a relay takes for a batch, from reading it to the end"),
		leases:      w.upDown("rehop.outbox.shards", "{shard}", "Shards of the outbox that the relays of this process have leased"),
		relayFaults: w.counter("rehop.outbox.faults", "{fault}", "Times that a relay could not work because of its database"),
		spilled:     w.counter("rehop.outbox.spilled", "{message}", "Messages that went into the outbox because the broker did not take them"),
		duplicates:  w.counter("rehop.inbox.duplicates", "{message}", "Messages that were not handled because a copy of them was"),
	}
	var faults [4]error
	i.sent, faults[0] = messagingconv.NewClientSentMessages(m)
	i.consumed, faults[1] = messagingconv.NewClientConsumedMessages(m)
	i.operation, faults[2] = messagingconv.NewClientOperationDuration(m, short)
	i.process, faults[3] = messagingconv.NewProcessDuration(m, short)
	return i, errors.Join(append(faults[:], w.faults...)...)
}

// workshop makes instruments, and keeps the errors.
type workshop struct {
	meter  metric.Meter
	faults []error
}

func checked[T any](w *workshop, instrument T, err error) T {
	if err != nil {
		w.faults = append(w.faults, err)
	}
	return instrument
}

func (w *workshop) counter(name, unit, description string) metric.Int64Counter {
	c, err := w.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, c, err)
}

func (w *workshop) upDown(name, unit, description string) metric.Int64UpDownCounter {
	c, err := w.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, c, err)
}

func (w *workshop) gauge(name, unit, description string) metric.Int64Gauge {
	g, err := w.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, g, err)
}

func (w *workshop) seconds(name, description string) metric.Float64Gauge {
	g, err := w.meter.Float64Gauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	return checked(w, g, err)
}

func (w *workshop) histogram(name string, buckets metric.HistogramOption, description string) metric.Float64Histogram {
	h, err := w.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), buckets)
	return checked(w, h, err)
}

func (w *workshop) observed(name, unit, description string) metric.Int64ObservableGauge {
	g, err := w.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, g, err)
}

// defaultExchange is what the exchange without a name is called in metrics and names of spans.
const defaultExchange = "(default)"

// destination names an exchange.
func destination(exchange string) string {
	if exchange == "" {
		return defaultExchange
	}
	return exchange
}
