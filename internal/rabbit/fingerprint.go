package rabbit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Fingerprint identifies a message: two messages have the same one only if everything that their publishers and the broker wrote is the
// same. A message that is delivered again keeps it.
type Fingerprint [16]byte

// FingerprintOf computes the fingerprint of a message. It leaves out what differs from one delivery to the next.
func FingerprintOf(m *Message) Fingerprint {
	b := make([]byte, 0, 512)
	for _, s := range [...]string{
		m.Exchange, m.RoutingKey, m.MessageId, m.CorrelationId, m.ContentType, m.ContentEncoding, m.ReplyTo, m.Expiration, m.Type, m.UserId, m.AppId,
	} {
		b = appendText(b, s)
	}
	b = append(b, m.DeliveryMode, m.Priority)
	b = appendMoment(b, m.Timestamp)
	b = appendTable(b, m.Headers, isCounter)
	h := sha256.New()
	_, _ = h.Write(b)
	_, _ = h.Write(m.Body)
	return Fingerprint(h.Sum(nil)[:len(Fingerprint{})])
}

// isCounter reports whether a header counts deliveries.
func isCounter(header string) bool {
	return header == "x-delivery-count" || header == "x-acquired-count"
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendMoment(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	return binary.AppendVarint(append(b, 1), t.Unix())
}

// appendTable appends a table by its names in order, without those that leaveOut chooses.
func appendTable(b []byte, t amqp.Table, leaveOut func(string) bool) []byte {
	names := slices.Sorted(maps.Keys(t))
	if leaveOut != nil {
		names = slices.DeleteFunc(names, leaveOut)
	}
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendField(appendText(b, name), t[name])
	}
	return b
}

// appendField appends a value with its type, as amqp091-go decodes them.
func appendField(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'V')
	case bool:
		if v {
			return append(b, 't', 1)
		}
		return append(b, 't', 0)
	case string:
		return appendText(append(b, 'S'), v)
	case []byte:
		return appendText(append(b, 'x'), v)
	case int8:
		return binary.AppendVarint(append(b, 'b'), int64(v))
	case byte:
		return binary.AppendVarint(append(b, 'B'), int64(v))
	case int16:
		return binary.AppendVarint(append(b, 's'), int64(v))
	case uint16:
		return binary.AppendVarint(append(b, 'u'), int64(v))
	case int32:
		return binary.AppendVarint(append(b, 'I'), int64(v))
	case uint32:
		return binary.AppendVarint(append(b, 'i'), int64(v))
	case int64:
		return binary.AppendVarint(append(b, 'l'), v)
	case float32:
		return binary.BigEndian.AppendUint32(append(b, 'f'), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case amqp.Decimal:
		return binary.AppendVarint(append(b, 'D', v.Scale), int64(v.Value))
	case time.Time:
		return appendMoment(append(b, 'T'), v)
	case amqp.Table:
		return appendTable(append(b, 'F'), v, nil)
	case []any:
		b = binary.AppendUvarint(append(b, 'A'), uint64(len(v)))
		for _, e := range v {
			b = appendField(b, e)
		}
		return b
	}
	return appendText(append(b, '?'), fmt.Sprintf("%#v", v))
}
