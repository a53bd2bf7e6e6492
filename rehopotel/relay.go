package rehopotel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

// OnBacklog says how much is in the outbox.
func (h *Hook) OnBacklog(b outbox.Backlog) {
	ctx := context.Background()
	for state, n := range map[string]int{"ready": b.Ready, "retrying": b.Retrying, "delayed": b.Delayed, "set_aside": b.SetAside, "kept": b.Kept} {
		h.count.backlog.Record(ctx, int64(n), h.ofOutbox(keyState.String(state)))
	}
	h.count.oldest.Record(ctx, b.Oldest.Seconds(), h.ofOutbox())
	h.knowOutbox()
}

// knowOutbox has faults of the outbox counted from 0, so that an alert sees the first ones as an increase.
func (h *Hook) knowOutbox() { h.count.relayFaults.Add(context.Background(), 0, h.ofOutbox()) }

// OnBatch counts what a relay has read.
func (h *Hook) OnBatch(b outbox.Batch) {
	ctx := context.Background()
	for outcome, n := range map[string]int{"published": b.Published, "postponed": b.Postponed, "set_aside": b.SetAside, "left": b.Left} {
		if n > 0 {
			h.count.relayed.Add(ctx, int64(n), h.ofOutbox(keyOutcome.String(outcome)))
		}
	}
	h.count.batch.Record(ctx, b.Took.Seconds(), h.ofOutbox())
}

// OnLease counts the shards that relays of this process have.
func (h *Hook) OnLease(l outbox.Lease) {
	n := int64(len(l.Shards))
	if !l.Gained {
		n = -n
	}
	h.count.leases.Add(context.Background(), n, h.ofOutbox())
	h.knowOutbox()
}

// OnFault counts a database that keeps a relay from its work.
func (h *Hook) OnFault(error) { h.count.relayFaults.Add(context.Background(), 1, h.ofOutbox()) }

// OnSpill counts messages that took the way through the outbox.
func (h *Hook) OnSpill(ctx context.Context, m *rehop.Message, _ error) {
	h.count.spilled.Add(ctx, 1, h.ofOutbox(keyExchange.String(destination(m.Exchange))))
}

func (h *Hook) ofOutbox(more ...attribute.KeyValue) metric.MeasurementOption {
	return with(slices.Concat(h.outbox, more)...)
}
