package admin

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/rabbit"
)

// readLetter reads a message in an error queue.
func readLetter(d rabbit.Message, from place) Message {
	l, r := letters.Read(letters.Letter{
		Source: from.source, Headers: rabbit.FromTable(d.Headers), Body: d.Body, ID: d.MessageId, ContentType: d.ContentType,
		ContentEncoding: d.ContentEncoding, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
		Priority: d.Priority, Timestamp: d.Timestamp,
	})
	if r.By == "" {
		r.Exchange, r.Key = from.origin(d)
	}
	m := Message{
		ID: l.ID, Queue: r.Queue, Exchange: r.Exchange, Key: r.Key, Headers: l.Headers, Body: l.Body, RecordedBy: r.By,
		ContentType: l.ContentType, ContentEncoding: l.ContentEncoding, Priority: l.Priority, Timestamp: l.Timestamp,
		CorrelationID: l.CorrelationID, ReplyTo: l.ReplyTo, Type: l.Type, AppID: l.AppID,
		Attempts: r.Attempts, Error: r.Error, Kind: rehop.Kind(r.Kind), Stack: r.Stack, FailedAt: r.FailedAt, FirstFailed: r.FirstFailed, Host: r.Host, Version: r.Version,
		published: r.Published, letter: &d, when: cmp.Or(r.FailedAt, envelope.LatestDeath(rabbit.FromTable(d.Headers)), l.Timestamp),
	}
	if r.By == letters.Rehop {
		m.failure = envelope.Read(rabbit.FromTable(d.Headers), r.Exchange, r.Key)
		m.Replays = m.failure.Replays
	}
	if m.anonymous = l.ID == "" || strings.HasPrefix(l.ID, noID); m.anonymous {
		m.ID = cmp.Or(r.ID, l.ID, anonymousID(d))
	}
	return m
}

// noID begins the ids of messages that have none.
const noID = "noid-"

// anonymousID is an id for a message without one: a hash of everything that its publisher and the program that failed it have written.
func anonymousID(d rabbit.Message) string {
	d.Exchange, d.RoutingKey, d.MessageId = "", "", "" // they change when the message is renewed or imported
	d.Headers = withoutRenewal(d.Headers)
	print := rabbit.FingerprintOf(&d)
	return noID + hex.EncodeToString(print[:8])
}

// withoutRenewal are headers without those of messages that were renewed, and without the counts of the broker.
func withoutRenewal(headers rabbit.Table) rabbit.Table {
	kept := maps.Clone(headers)
	for _, name := range []string{envelope.CameBy, envelope.CameKey, envelope.RenewedBy, "x-delivery-count", "x-acquired-count"} {
		delete(kept, name)
	}
	if cc, ok := kept[envelope.CC]; ok && !envelope.Written(rabbit.FromTable(headers)) {
		kept["CC"] = cc
		delete(kept, envelope.CC)
	}
	return kept
}

// letterRecord is the line of an export for a message in an error queue, unchanged.
func letterRecord(source string, m Message) record {
	r, d := recordOf(m), m.letter
	r.From, r.NoID, r.Headers, r.Body = source, m.anonymous, headerjson.Plain(rabbit.FromTable(withoutRenewal(d.Headers))), d.Body
	r.ContentType, r.ContentEncoding, r.Priority, r.Timestamp = d.ContentType, d.ContentEncoding, d.Priority, d.Timestamp
	r.CorrelationID, r.ReplyTo, r.Type, r.AppID, r.Transient = d.CorrelationId, d.ReplyTo, d.Type, d.AppId, d.DeliveryMode == rabbit.Transient
	return r
}

// letterItem is what is published for such a line.
func letterItem(r record) (rabbit.Item, error) {
	if len(r.From) > maxName {
		return rabbit.Item{}, fmt.Errorf("the queue's name has %d bytes, AMQP allows %d", len(r.From), maxName)
	}
	headers := maps.Clone(r.Headers)
	if cc, ok := headers["CC"]; ok { // the broker would send copies to other queues
		headers[envelope.CC] = cc
		delete(headers, "CC")
	}
	delete(headers, "BCC")
	item := rabbit.Item{Key: r.From, Message: &rabbit.Publishing{
		MessageId: cmp.Or(r.ID, rabbit.NewID()), Headers: rabbit.ToTable(headers), Body: r.Body, ContentType: r.ContentType,
		ContentEncoding: r.ContentEncoding, DeliveryMode: rabbit.Persistent, Priority: r.Priority, Timestamp: r.Timestamp,
		CorrelationId: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppId: r.AppID,
	}}
	if r.NoID && !strings.HasPrefix(r.ID, noID) {
		item.Message.MessageId = noID + rabbit.NewID()
	}
	return item, rabbit.Check(item.Exchange, item.Key, item.Message)
}
