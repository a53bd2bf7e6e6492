package errorqueues

import (
	"bytes"
	"errors"
	"reflect"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/letters/golden"
	"github.com/rehop/rehop/internal/rabbit"
)

// goldenCases are what operators do with a failed message of each framework.
func goldenCases() (all []Case) {
	for _, s := range golden.Samples() {
		all = append(all, Case{"message of " + s.Name, func(b *Bench) { b.golden(s) }})
	}
	return all
}

// golden lists, exports, discards, imports and replays a message.
func (b *Bench) golden(s golden.Sample) {
	a := b.admin()
	q := a.ErrorQueue(s.Letter.Source)
	b.declare(nil, s.Letter.Source)
	b.put(s.Letter)
	m := b.only(q)
	b.wantRecord(s, m)

	var lines bytes.Buffer
	n, err := q.Export(b.context(), &lines, admin.Filter{IDs: []string{m.ID}})
	b.must(err)
	if n != 1 {
		b.t.Fatalf("export: got %d messages, want 1", n)
	}
	if p, err := q.Discard(b.context(), admin.Options{Filter: admin.Filter{IDs: []string{m.ID}}}); err != nil || p.Done != 1 {
		b.t.Fatalf("discard: got %+v, %v, want 1 message", p, err)
	}
	b.wantDepth(s.Letter.Source, 0)
	if n, err := a.Import(b.context(), strings.NewReader(lines.String())); err != nil || n != 1 {
		b.t.Fatalf("import: got %d messages, %v, want 1", n, err)
	}
	back := b.only(q)
	b.wantRecord(s, back)
	if back.ID != m.ID {
		b.t.Errorf("id after an import: got %q, want %q", back.ID, m.ID)
	}
	var again bytes.Buffer
	if _, err := q.Export(b.context(), &again, admin.Filter{}); err != nil || again.String() != lines.String() {
		b.t.Errorf("export after an import: %v\n got %swant %s", err, again.String(), lines.String())
	}
	b.goldenReplay(q, s)
}

// goldenReplay replays the message to the destination in its record, or to a queue that is named if there is none.
func (b *Bench) goldenReplay(q *admin.ErrorQueue, s golden.Sample) {
	to, queues := "", []string{s.Record.Queue}
	switch {
	case s.Record.Published:
		queues = []string{"one of two", "two of two"}
		b.declare(quorum(), queues...)
		b.bind(s.Record.Exchange, s.Record.Key, queues...)
	case s.Record.Queue == "":
		p, err := q.Replay(b.context(), "", admin.Options{})
		if !errors.Is(err, admin.ErrNoDestination) || p.Done != 0 || p.Kept != 1 {
			b.t.Fatalf("replay without a record: got %+v, %v, want it kept with ErrNoDestination", p, err)
		}
		b.wantDepth(s.Letter.Source, 1)
		to, queues = "elsewhere", []string{"elsewhere"}
		fallthrough
	default:
		b.declare(quorum(), queues...)
	}
	if p, err := q.Replay(b.context(), to, admin.Options{}); err != nil || p.Done != 1 {
		b.t.Fatalf("replay: got %+v, %v, want 1 message", p, err)
	}
	b.wantDepth(s.Letter.Source, 0)
	for _, queue := range queues {
		b.wantOriginal(s, queue, b.take(queue))
	}
}

// only is the only message of an error queue.
func (b *Bench) only(q *admin.ErrorQueue) admin.Message {
	b.t.Helper()
	found, err := q.Messages(b.context(), 10, admin.Filter{})
	b.must(err)
	if len(found) != 1 {
		b.t.Fatalf("got %d messages, want 1", len(found))
	}
	if n, err := q.Count(b.context(), admin.Filter{}); err != nil || n.Messages != 1 {
		b.t.Fatalf("count: got %+v, %v, want 1 message", n, err)
	}
	return found[0]
}

func (b *Bench) wantRecord(s golden.Sample, m admin.Message) {
	b.t.Helper()
	got := letters.Record{By: m.RecordedBy, Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Attempts: m.Attempts, Kind: string(m.Kind), Error: m.Error,
		Stack: m.Stack, Host: m.Host, FailedAt: m.FailedAt.UTC(), FirstFailed: m.FirstFailed.UTC()}
	want := s.Record
	want.ID, want.Published = "", false
	if want.By == "" {
		want.Exchange, want.Key = "", s.Letter.Source // as it came
	}
	if got != want {
		b.t.Errorf("record:\n got %+v\nwant %+v", got, want)
	}
	if !bytes.Equal(m.Body, s.Original.Body) {
		b.t.Errorf("body: got %q, want %q", m.Body, s.Original.Body)
	}
	switch id := s.Original.ID; {
	case id != "" && m.ID != id, id == "" && s.Record.ID != "" && m.ID != s.Record.ID:
		b.t.Errorf("id: got %q, want %q or %q", m.ID, id, s.Record.ID)
	case id == "" && s.Record.ID == "" && !strings.HasPrefix(m.ID, "noid-"):
		b.t.Errorf("id: got %q, want a hash", m.ID)
	}
}

// wantOriginal checks that a replayed message is what it was before it failed.
func (b *Bench) wantOriginal(s golden.Sample, queue string, d amqp091.Delivery) {
	b.t.Helper()
	headers := rabbit.FromTable(d.Headers)
	for _, name := range []string{"x-delivery-count", "x-acquired-count"} { // of the queue from which it was taken
		delete(headers, name)
	}
	got := letters.Letter{ID: d.MessageId, Headers: headers, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId, Priority: d.Priority, Timestamp: d.Timestamp}
	want := s.Original
	if want.ID == "" { // it gets one, and not the one by which operators see it
		if got.ID == "" || got.ID == s.Record.ID || strings.HasPrefix(got.ID, "noid-") {
			b.t.Errorf("id of the replayed message: got %q, want a new one", got.ID)
		}
		got.ID = ""
	}
	if s.Record.By == letters.Rehop { // rehop's consumers know its origin by its record
		if got.Headers["rehop-key"] != s.Record.Key || got.Headers["rehop-exchange"] != s.Record.Exchange || got.Headers["rehop-attempt"] != int32(0) {
			b.t.Errorf("rehop's record: got %v, want the origin and no attempts", got.Headers)
		}
		for name := range got.Headers {
			if strings.HasPrefix(name, "rehop-") {
				delete(got.Headers, name)
			}
		}
	}
	if len(got.Headers) == 0 {
		got.Headers = map[string]any{}
	}
	if !got.Timestamp.Equal(want.Timestamp) {
		b.t.Errorf("timestamp: got %v, want %v", got.Timestamp, want.Timestamp)
	}
	got.Timestamp = want.Timestamp
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("replayed message:\n got %+v\nwant %+v", got, want)
	}
	wantKey := s.Record.Key
	if wantKey == "" || s.Record.By == letters.Rehop || s.Record.By == letters.Celery {
		wantKey = queue
	}
	if d.RoutingKey != wantKey || d.Exchange != "" && !s.Record.Published {
		b.t.Errorf("got exchange %q and routing key %q, want the key %q", d.Exchange, d.RoutingKey, wantKey)
	}
	if d.DeliveryMode != amqp091.Persistent || d.Expiration != "" {
		b.t.Errorf("got delivery mode %d and expiration %q, want a persistent message that does not expire", d.DeliveryMode, d.Expiration)
	}
}
