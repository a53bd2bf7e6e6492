package rabbit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// frameOverhead is what a content header frame has besides properties: frame header and end,
// class, weight, body size, property flags.
const frameOverhead = 8 + 2 + 2 + 8 + 2

// growth is what a broker may add to the headers of a message until it is delivered: counts, and the
// record of a dead-lettering. A message with headers larger than a frame ends the connection of its
// consumer.
const growth = 128

// Check returns why a message cannot be sent to any broker. It may still be too large for a broker.
func Check(exchange, key string, p *amqp.Publishing) error {
	return check(exchange, key, p, math.MaxInt)
}

// check refuses what cannot be sent: amqp091-go or the broker would close the connection, and with it all
// other unconfirmed messages would lose their answers.
func check(exchange, key string, p *amqp.Publishing, maxBody int) error {
	for _, s := range [...]struct{ name, value string }{
		{"exchange", exchange}, {"key", key}, {"content type", p.ContentType}, {"content encoding", p.ContentEncoding},
		{"correlation id", p.CorrelationId}, {"reply-to", p.ReplyTo}, {"expiration", p.Expiration},
		{"message id", p.MessageId}, {"type", p.Type}, {"app id", p.AppId},
	} {
		if len(s.value) > 255 {
			return fmt.Errorf("%w: %s has %d bytes, AMQP allows 255", ErrInvalid, s.name, len(s.value))
		}
	}
	if !utf8.ValidString(exchange) { // RabbitMQ 4 ends the connection
		return fmt.Errorf("%w: the exchange's name %q is not UTF-8", ErrInvalid, exchange)
	}
	if len(p.Body) > maxBody {
		return fmt.Errorf("%w: the body has %d bytes, the limit is %d", ErrTooLarge, len(p.Body), maxBody)
	}
	if p.ReplyTo == directReplyTo {
		return fmt.Errorf("%w: reply-to %q works only on the channel that consumes the replies; send a request, or use a queue of your own", ErrInvalid, directReplyTo)
	}
	if len(p.Headers) == 0 {
		return nil
	}
	for _, name := range [...]string{"CC", "BCC"} {
		if value, ok := p.Headers[name]; ok {
			if err := checkCopies(name, value); err != nil {
				return err
			}
		}
	}
	size, err := headerSize(p.Headers, 0)
	if err != nil {
		return err
	}
	if room := HeaderRoom(p) - growth; size > room {
		return fmt.Errorf("%w: the headers have %d bytes, a frame has room for %d", ErrTooLarge, size, room)
	}
	return nil
}

// directReplyTo is a pseudo-queue that the broker refuses on any channel but the consumer's.
const directReplyTo = "amq.rabbitmq.reply-to"

// isDirectReply reports whether a message is a direct reply. It must not be mandatory: before RabbitMQ 4.3
// the broker returns it as unroutable although it delivers it.
func isDirectReply(exchange, key string) bool {
	return exchange == "" && strings.HasPrefix(key, directReplyTo+".")
}

// checkCopies: the broker accepts lists of strings as CC and BCC, and closes the channel for anything else.
func checkCopies(name string, value any) error {
	list, ok := value.([]any)
	notText := func(key any) bool {
		_, isText := key.(string)
		return !isText
	}
	if !ok || slices.ContainsFunc(list, notText) {
		return fmt.Errorf("%w: header %s must be a list of routing keys", ErrInvalid, name)
	}
	return nil
}

// HeaderRoom is how many bytes of headers fit into the frame with the other properties.
func HeaderRoom(p *amqp.Publishing) int {
	fixed := frameOverhead + 1 + 1 + 8 // delivery mode, priority, timestamp
	for _, s := range [...]string{p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.AppId} {
		fixed += 1 + len(s)
	}
	return frameMax - fixed
}

// HeaderSize is the encoded size of a header table.
func HeaderSize(t amqp.Table) (int, error) { return headerSize(t, 0) }

// maxDepth limits nested tables, as decoders do.
const maxDepth = 32

func headerSize(t amqp.Table, depth int) (int, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("%w: headers are nested deeper than %d", ErrInvalid, maxDepth)
	}
	size := 4
	for name, value := range t {
		if len(name) > 255 {
			return 0, fmt.Errorf("%w: a header's name has %d bytes, AMQP allows 255", ErrInvalid, len(name))
		}
		n, err := fieldSize(value, depth)
		if err != nil {
			return 0, fmt.Errorf("header %q: %w", name, err)
		}
		size += 1 + len(name) + n
	}
	return size, nil
}

// fieldSize is the size of a value with its type byte.
func fieldSize(v any, depth int) (int, error) {
	switch v := v.(type) {
	case nil:
		return 1, nil
	case bool, byte, int8:
		return 2, nil
	case int16, uint16:
		return 3, nil
	case int, int32, uint32, float32:
		return 5, nil
	case int64, float64, time.Time:
		return 9, nil
	case amqp.Decimal:
		return 6, nil
	case string:
		return 5 + len(v), nil
	case []byte:
		return 5 + len(v), nil
	case amqp.Table:
		n, err := headerSize(v, depth+1)
		return 1 + n, err
	case []any:
		if depth > maxDepth {
			return 0, fmt.Errorf("%w: headers are nested deeper than %d", ErrInvalid, maxDepth)
		}
		size := 5
		for _, e := range v {
			n, err := fieldSize(e, depth+1)
			if err != nil {
				return 0, err
			}
			size += n
		}
		return size, nil
	}
	return 0, fmt.Errorf("%w: AMQP cannot carry a value of type %T", ErrInvalid, v)
}
