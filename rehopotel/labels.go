package rehopotel

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// label is the attributes of a measurement. Empty ones are left out.
type label struct {
	operation, kind, destination string
	outcome, fault               string
	queue                        string
}

func (l label) attributes() []attribute.KeyValue {
	var list []attribute.KeyValue
	if l.operation != "" {
		list = append(list, semconv.MessagingSystemRabbitMQ)
	}
	for _, a := range []attribute.KeyValue{
		semconv.MessagingOperationName(l.operation), semconv.MessagingOperationTypeKey.String(l.kind), semconv.MessagingDestinationName(l.destination),
		keyOutcome.String(l.outcome), semconv.ErrorTypeKey.String(l.fault), keyQueue.String(l.queue),
	} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	return list
}

// made is the attributes of a measurement in the forms that instruments need.
type made struct {
	add    []metric.AddOption
	record []metric.RecordOption

	announced atomic.Bool // related counters were exported with 0
}

func (l label) made() *made {
	option := metric.WithAttributeSet(attribute.NewSet(l.attributes()...))
	return &made{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
}

// labels caches attributes: there are few different ones, and many messages.
type labels struct {
	mu    sync.RWMutex
	known map[label]*made
}

// labelsKept bounds the memory of a program that keeps publishing to new exchanges.
const labelsKept = 1000

func (k *labels) of(l label) *made {
	k.mu.RLock()
	m, known := k.known[l]
	k.mu.RUnlock()
	if known {
		return m
	}
	m = l.made()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) < labelsKept {
		k.known[l] = m
	}
	return m
}
