package rehop

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// Message is what is published, and what a handler sees.
type Message struct {
	// ID identifies the message. Consumers recognise duplicates by it. Default: a new UUID.
	ID string
	// Exchange is where it is published to. Default: the default exchange, where Key names a queue.
	Exchange string
	// Key is the routing key.
	Key string
	// Headers can have strings, numbers, booleans, times, []byte, []any and nested map[string]any.
	// Names that begin with "rehop-" are reserved for rehop. Default: none.
	Headers map[string]any
	Body    []byte

	ContentType     string
	ContentEncoding string
	// Transient messages do not survive a restart of the broker in classic queues. Default: persistent.
	Transient bool
	Priority  uint8
	// Expiration is how long it may stay in a queue without being delivered: at most 10 years of 365
	// days, RabbitMQ's limit. It ends when rehop moves the message for the first time, for a retry or to
	// the failed queue. Default: 0, without limit.
	Expiration    time.Duration
	Timestamp     time.Time // to the second. Default: when it is published.
	CorrelationID string
	ReplyTo       string
	Type          string
	AppID         string

	// OrderKey is the key by which the message is to be handled in order, for example the number of the
	// order that it is about. A subscription keeps that order if its OrderBy is [OrderKey]; with
	// Partitions the key also decides on the partition. The outbox publishes messages with the same key
	// one after the other. It is sent as the header [OrderKeyHeader], and a hash of it in two further
	// headers. If it is empty and Headers has order-key, that is sent, but the outbox keeps no order. At
	// most 255 bytes.
	OrderKey string
	// Delay keeps the message on the broker for this duration before it is routed, at most about 310
	// days. The exchange must be one that rehop declares (Config.Exchanges, Subscriber.Exchange), or the
	// default exchange. Default: 0, routed at once.
	Delay time.Duration
	// At is Delay as a point in time. If both are set, the later one counts.
	At time.Time
}

// NewID returns a new id, a UUID, as Publish creates for a message without one.
func NewID() string { return rabbit.NewID() }

// returnHeaders are the headers of a message that has none of its own; shared, never written to.
var returnHeaders = rabbit.Table{layouts.HeaderReturn: true}

// publishing turns a message, which has an id by now, into what is sent. The caller allocates p, so
// that it can stay off the heap.
func (m *Message) publishing(p *rabbit.Publishing, keepUnroutable bool) error {
	*p = rabbit.Publishing{
		MessageId: m.ID, Body: m.Body, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		DeliveryMode: rabbit.Persistent, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppId: m.AppID,
	}
	if p.Timestamp.IsZero() {
		p.Timestamp = time.Now()
	}
	if m.Transient {
		p.DeliveryMode = rabbit.Transient
	}
	switch {
	case m.Expiration < 0:
		return fmt.Errorf("%w: expiration %v is negative", ErrInvalid, m.Expiration)
	case m.Expiration > maxTTL:
		return fmt.Errorf("%w: expiration %v is longer than RabbitMQ allows: at most %v", ErrInvalid, m.Expiration, maxTTL)
	case m.Expiration > 0:
		p.Expiration = strconv.FormatInt(max(1, m.Expiration.Milliseconds()), 10)
	}
	for name := range m.Headers {
		if strings.HasPrefix(name, envelope.Prefix) {
			return fmt.Errorf("%w: header %q: names that begin with %q belong to rehop", ErrInvalid, name, envelope.Prefix)
		}
	}
	if len(m.OrderKey) > maxOrderKey {
		return fmt.Errorf("%w: the order key has %d bytes, the longest possible has %d", ErrInvalid, len(m.OrderKey), maxOrderKey)
	}
	returned := !keepUnroutable && m.Exchange != "" // the default exchange has no alternate exchange that would keep it
	order := m.orderKey()
	switch {
	case !returned && order == "":
		p.Headers = rabbit.ToTable(m.Headers)
	case len(m.Headers) == 0 && order == "":
		p.Headers = returnHeaders
	default:
		headers := make(map[string]any, len(m.Headers)+4)
		maps.Copy(headers, m.Headers)
		if returned {
			headers[layouts.HeaderReturn] = true
		}
		if order != "" {
			headers[OrderKeyHeader] = order
			headers[layouts.SlotHeader], headers[layouts.SecondSlotHeader] = layouts.Slots(order)
		}
		p.Headers = rabbit.ToTable(headers)
	}
	if len(m.Headers) > 0 || order != "" {
		if size, err := rabbit.HeaderSize(p.Headers); err != nil {
			return err
		} else if room := rabbit.HeaderRoom(p) - headerReserve; size > room {
			return fmt.Errorf("%w: the headers have %d bytes, a frame has room for %d", ErrTooLarge, size, room)
		}
	}
	return nil
}

// maxTTL is the longest TTL of messages and queues that RabbitMQ accepts. It closes the channel of a
// publisher that asks for more.
const maxTTL = 10 * 365 * 24 * time.Hour

// maxOrderKey is how long an order key may be, as in the outbox.
const maxOrderKey = 255

// headerReserve is left free in the header frame for what the broker adds when it dead-letters a
// message: a message with headers larger than a frame cannot be delivered.
const headerReserve = 2 << 10

// expiration parses AMQP's expiration, a number of milliseconds as text.
func expiration(s string) time.Duration {
	if s == "" {
		return 0
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
