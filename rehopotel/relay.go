package rehopotel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

// onBacklog reports how many messages are in the outbox.
func (t *Telemetry) onBacklog(b outbox.Backlog) {
	ctx := context.Background()
	for state, n := range map[string]int{"ready": b.Ready, "retrying": b.Retrying, "delayed": b.Delayed, "set_aside": b.SetAside, "kept": b.Kept} {
		t.count.backlog.Record(ctx, int64(n), t.ofOutbox(keyState.String(state)))
	}
	t.count.oldest.Record(ctx, b.Oldest.Seconds(), t.ofOutbox())
	t.knowOutbox()
}

// knowOutbox exports the faults of the outbox with 0, so that an alert sees the first one as an increase.
func (t *Telemetry) knowOutbox() { t.count.relayFaults.Add(context.Background(), 0, t.ofOutbox()) }

func (t *Telemetry) onBatch(b outbox.Batch) {
	ctx := context.Background()
	for outcome, n := range map[string]int{"published": b.Published, string(rehop.OutcomeRetry): b.Retry, "set_aside": b.SetAside, "left": b.Left} {
		if n > 0 {
			t.count.relayed.Add(ctx, int64(n), t.ofOutbox(keyOutcome.String(outcome)))
		}
	}
	t.count.batch.Record(ctx, b.Took.Seconds(), t.ofOutbox())
}

// onLease counts the shards that relays of this process have.
func (t *Telemetry) onLease(l outbox.Lease) {
	n := int64(len(l.Shards))
	if !l.Gained {
		n = -n
	}
	t.count.leases.Add(context.Background(), n, t.ofOutbox())
	t.knowOutbox()
}

func (t *Telemetry) onFault(error) { t.count.relayFaults.Add(context.Background(), 1, t.ofOutbox()) }

// onSpill counts messages that were written to the outbox because the broker did not accept them.
func (t *Telemetry) onSpill(ctx context.Context, m *rehop.Message, _ error) {
	t.count.spilled.Add(ctx, 1, t.ofOutbox(keyExchange.String(destination(m.Exchange))))
}

func (t *Telemetry) ofOutbox(more ...attribute.KeyValue) metric.MeasurementOption {
	return with(slices.Concat(t.outbox, more)...)
}
