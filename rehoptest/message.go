package rehoptest

import (
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// Message is a message that lies in a queue.
type Message struct {
	// Message has the exchange, key, properties and headers with which it was first published.
	rehop.Message
	// Queue is the queue that has failed it, and to which it returns or is replayed. Empty: none has.
	Queue string
	// Attempts is how often a handler has failed it.
	Attempts int
	// Error and Kind say why, the last time: error, permanent, decode, timeout, panic, crash, or dead (by the broker).
	Error, Kind string
	// Stack is where the handler panicked.
	Stack string
	// FailedAt and FirstFailed are when it failed the last and the first time.
	FailedAt, FirstFailed time.Time
	// Due is when it is to be tried again, while it waits.
	Due time.Time
	// Replays is how often it has been replayed.
	Replays int
	// Redelivered: a consumer may have seen it and not answered.
	Redelivered bool
}

// Messages lists what is ready in a queue, from its head, and takes nothing. Messages in consumers' hands are not among it.
func (b *Broker) Messages(queue string) []Message {
	b.t.Helper()
	var all []Message
	for _, s := range b.look(queue) {
		m, err := messageOf(s)
		if err != nil {
			b.t.Fatalf("rehoptest: read a message of queue %q: %v", queue, err)
		}
		all = append(all, m)
	}
	return all
}

func (b *Broker) look(queue string) []node.Sight {
	b.t.Helper()
	seen, err := b.queue(queue).Look()
	if err != nil {
		b.t.Fatalf("rehoptest: %v", err)
	}
	return seen
}

// messageOf opens the envelope of a message, as a client does.
func messageOf(s node.Sight) (Message, error) {
	p := s.Properties
	headers := headersOf(p.Headers)
	f := envelope.ReadDead(headers, s.Exchange, s.Key)
	if f.Expiration == "" {
		f.Expiration = p.Expiration
	}
	var expiration time.Duration
	if f.Expiration != "" {
		ms, err := strconv.ParseInt(f.Expiration, 10, 64)
		if err != nil {
			return Message{}, fmt.Errorf("expiration %q: %w", f.Expiration, err)
		}
		expiration = time.Duration(ms) * time.Millisecond
	}
	m := Message{
		Message: rehop.Message{
			ID: p.MessageID, Exchange: f.Exchange, Key: f.Key, Headers: envelope.Clean(headers), Body: s.Body,
			ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, Transient: f.Transient || p.DeliveryMode != persistent,
			Priority: p.Priority, Expiration: expiration, CorrelationID: p.CorrelationID, ReplyTo: p.ReplyTo, Type: p.Type, AppID: p.AppID,
		},
		Queue: f.Queue, Attempts: f.Attempt, Error: f.Error, Kind: f.Kind, Stack: f.Stack, FailedAt: f.FailedAt, FirstFailed: f.FirstFailed,
		Due: f.Due, Replays: f.Replays, Redelivered: s.Redelivered,
	}
	if p.Timestamp != 0 {
		m.Timestamp = time.Unix(int64(p.Timestamp), 0)
	}
	return m, nil
}

const persistent = 2

// headersOf turns a table into the types that rehop's users see.
func headersOf(t wire.Table) map[string]any {
	headers := make(map[string]any, len(t))
	for _, f := range t {
		headers[f.Key] = fieldOf(f.Value)
	}
	return headers
}

func fieldOf(v any) any {
	switch v := v.(type) {
	case wire.Table:
		return headersOf(v)
	case wire.Array:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = fieldOf(e)
		}
		return list
	case wire.Timestamp:
		return time.Unix(int64(v), 0)
	case wire.Decimal: // as text: Go has no type for it
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Scale)), nil)
		return new(big.Rat).SetFrac(big.NewInt(int64(int32(v.Value))), scale).FloatString(int(v.Scale))
	}
	return v
}
