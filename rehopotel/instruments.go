package rehopotel

import (
	"cmp"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
)

// rehop's own attributes. Metrics have no attributes whose number of values grows with the traffic: no ids, no routing keys.
const (
	keyQueue      = attribute.Key("rehop.queue")
	keyExchange   = attribute.Key("rehop.exchange")
	keyOutcome    = attribute.Key("rehop.outcome")
	keyKind       = attribute.Key("rehop.kind")
	keyState      = attribute.Key("rehop.state")
	keyConnection = attribute.Key("rehop.connection")
	keyOutbox     = attribute.Key("rehop.outbox")
	keyWait       = attribute.Key("rehop.wait")

	// Only of spans.
	keyAttempt     = attribute.Key("rehop.attempt")
	keyMaxAttempts = attribute.Key("rehop.max_attempts")
	keyReplays     = attribute.Key("rehop.replays")
	keyRedelivered = attribute.Key("rehop.redelivered")
	keyDelay       = attribute.Key("rehop.delay")
)

// instruments are the metrics of a Telemetry.
type instruments struct {
	sent      messagingconv.ClientSentMessages
	consumed  messagingconv.ClientConsumedMessages
	operation messagingconv.ClientOperationDuration
	process   messagingconv.ProcessDuration

	retries     metric.Int64Counter
	failed      metric.Int64Counter
	retryAge    metric.Float64Histogram
	unroutable  metric.Int64Counter
	inFlight    metric.Int64UpDownCounter
	stuck       metric.Int64Counter
	connections metric.Int64UpDownCounter
	consumers   metric.Int64UpDownCounter
	paused      metric.Int64UpDownCounter
	held        metric.Int64Gauge
	heldOldest  metric.Float64Gauge
	blocked     metric.Int64Gauge
	heldKeys    metric.Int64Gauge
	stalled     metric.Int64Gauge

	backlog     metric.Int64Gauge
	oldest      metric.Float64Gauge
	relayed     metric.Int64Counter
	batch       metric.Float64Histogram
	leases      metric.Int64UpDownCounter
	relayFaults metric.Int64Counter
	spilled     metric.Int64Counter
	duplicates  metric.Int64Counter
}

// Buckets in seconds: for operations from half a millisecond on, and for ages of retries up to three days.
var (
	short = metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	long  = metric.WithExplicitBucketBoundaries(1, 10, 60, 300, 900, 3600, 3*3600, 6*3600, 12*3600, 24*3600, 72*3600)
)

func newInstruments(m metric.Meter) (*instruments, error) {
	w := maker{meter: m}
	i := &instruments{
		retries:     w.counter("rehop.retries", "{message}", "Messages that wait for their next attempt"),
		failed:      w.counter("rehop.failed", "{message}", "Messages that were moved to a failed queue"),
		retryAge:    w.histogram("rehop.retry.age", long, "Time from the first failure of a message to a further attempt"),
		unroutable:  w.counter("rehop.unroutable", "{message}", "Messages that were returned because no queue was bound for them"),
		inFlight:    w.upDown("rehop.handlers.in_flight", "{handler}", "Handlers that are running"),
		stuck:       w.counter("rehop.handlers.stuck", "{event}", "Reports of handlers that ignore their canceled context"),
		connections: w.upDown("rehop.connections", "{connection}", "Connections of clients, by state"),
		consumers:   w.upDown("rehop.consumers", "{consumer}", "Subscriptions that receive messages (up), or should but do not (down)"),
		paused:      w.upDown("rehop.paused", "{subscription}", "Subscriptions that pause because a dependency of their handler is down"),
		held:        w.gauge("rehop.held.messages", "{message}", "Messages that wait because they are handled in order by key"),
		heldKeys:    w.gauge("rehop.held.keys", "{key}", "Keys of which messages wait because they are handled in order by key"),
		heldOldest:  w.seconds("rehop.held.oldest", "Time since the first failure of the oldest message that waits in order by key"),
		blocked:     w.gauge("rehop.held.blocked", "{key}", "Keys whose messages wait until a failed message is replayed or skipped"),
		stalled:     w.gauge("rehop.held.stalled", "{subscription}", "Subscriptions that handle no message because too many wait in order by key"),

		backlog:     w.gauge("rehop.outbox.messages", "{message}", "Messages in the outbox, by state"),
		oldest:      w.seconds("rehop.outbox.oldest", "Age of the oldest message in the outbox that is ready or retrying"),
		relayed:     w.counter("rehop.outbox.relayed", "{message}", "Messages that relays have read, by outcome"),
		batch:       w.histogram("rehop.outbox.batch.duration", short, "Duration of a batch, from reading it to the end"),
		leases:      w.upDown("rehop.outbox.shards", "{shard}", "Shards of the outbox that the relays of this process have leased"),
		relayFaults: w.counter("rehop.outbox.faults", "{fault}", "Times that a relay could not work because of the database"),
		spilled:     w.counter("rehop.outbox.spilled", "{message}", "Messages that were written to the outbox because the broker did not accept them"),
		duplicates:  w.counter("rehop.inbox.duplicates", "{message}", "Messages that were not handled because a copy was"),
	}
	var faults [4]error
	i.sent, faults[0] = messagingconv.NewClientSentMessages(m)
	i.consumed, faults[1] = messagingconv.NewClientConsumedMessages(m)
	i.operation, faults[2] = messagingconv.NewClientOperationDuration(m, short)
	i.process, faults[3] = messagingconv.NewProcessDuration(m, short)
	return i, errors.Join(append(faults[:], w.faults...)...)
}

// maker creates instruments and collects the errors.
type maker struct {
	meter  metric.Meter
	faults []error
}

func checked[T any](w *maker, instrument T, err error) T {
	if err != nil {
		w.faults = append(w.faults, err)
	}
	return instrument
}

func (w *maker) counter(name, unit, description string) metric.Int64Counter {
	c, err := w.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, c, err)
}

func (w *maker) upDown(name, unit, description string) metric.Int64UpDownCounter {
	c, err := w.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, c, err)
}

func (w *maker) gauge(name, unit, description string) metric.Int64Gauge {
	g, err := w.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, g, err)
}

func (w *maker) seconds(name, description string) metric.Float64Gauge {
	g, err := w.meter.Float64Gauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	return checked(w, g, err)
}

func (w *maker) histogram(name string, buckets metric.HistogramOption, description string) metric.Float64Histogram {
	h, err := w.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), buckets)
	return checked(w, h, err)
}

func (w *maker) observed(name, unit, description string) metric.Int64ObservableGauge {
	g, err := w.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	return checked(w, g, err)
}

// defaultExchange is the name of the default exchange in metrics and spans.
const defaultExchange = "(default)"

// destination is the name of an exchange in metrics and spans.
func destination(exchange string) string { return cmp.Or(exchange, defaultExchange) }
