package rehoptest

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/internal/envelope"
)

// Message is a message in a queue.
type Message struct {
	// Message has the exchange, key, properties and headers with which it was first published.
	rehop.Message
	// Queue is the queue in which it failed, and to which it returns or is replayed. Empty: it has not failed.
	Queue string
	// Attempts is how many attempts have failed.
	Attempts int
	// Error and Kind are why the last one failed; see rehop.Kind.
	Error string
	Kind  rehop.Kind
	// Stack is where the handler panicked.
	Stack string
	// FailedAt and FirstFailed are when it failed the last and the first time.
	FailedAt, FirstFailed time.Time
	// Due is when it is to be tried again, while it waits.
	Due time.Time
	// Replays is how often it has been replayed.
	Replays int
	// Redelivered: a consumer may have received it and not answered.
	Redelivered bool
}

// Messages returns the ready messages of a queue, from its head, and removes none. Unacked messages are not
// included.
func (b *Broker) Messages(queue string) []Message {
	b.t.Helper()
	var all []Message
	for _, s := range b.peek(queue) {
		m, err := messageOf(s)
		if err != nil {
			b.t.Fatalf("rehoptest: read a message of queue %q: %v", queue, err)
		}
		all = append(all, m)
	}
	return all
}

func (b *Broker) peek(queue string) []brokertest.Message {
	b.t.Helper()
	seen, err := b.queue(queue).Messages()
	if err != nil {
		b.t.Fatalf("rehoptest: %v", err)
	}
	return seen
}

// messageOf reads the rehop headers of a message, as a client does.
func messageOf(s brokertest.Message) (Message, error) {
	f := envelope.ReadDead(s.Headers, s.Exchange, s.Key)
	if f.Expiration == "" {
		f.Expiration = s.Expiration
	}
	var expiration time.Duration
	if f.Expiration != "" {
		ms, err := strconv.ParseInt(f.Expiration, 10, 64)
		if err != nil {
			return Message{}, fmt.Errorf("expiration %q: %w", f.Expiration, err)
		}
		expiration = time.Duration(ms) * time.Millisecond
	}
	return Message{
		Message: rehop.Message{
			ID: s.MessageID, Exchange: f.Exchange, Key: f.Key, Headers: envelope.Clean(s.Headers), Body: s.Body, Timestamp: s.Timestamp,
			ContentType: s.ContentType, ContentEncoding: s.ContentEncoding, Transient: f.Transient || !s.Persistent,
			Priority: s.Priority, Expiration: expiration, CorrelationID: s.CorrelationID, ReplyTo: s.ReplyTo, Type: s.Type, AppID: s.AppID,
		},
		Queue: f.Queue, Attempts: f.Attempt, Error: f.Error, Kind: rehop.Kind(f.Kind), Stack: f.Stack, FailedAt: f.FailedAt, FirstFailed: f.FirstFailed,
		Due: f.Due, Replays: f.Replays, Redelivered: s.Redelivered,
	}, nil
}
