package amqp

import (
	"reflect"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// The queues of nearly every case on dead letters: those of source come to dead.
const (
	source = "source"
	dead   = "dead"
)

// DeadLettering declares queue source with these arguments, and queue dead, which gets its dead letters
// by the fanout exchange dlx.
func (ch *Channel) DeadLettering(args amqp091.Table) {
	ch.b.t.Helper()
	ch.Exchange("dlx", "fanout", nil)
	ch.Bind(ch.Queue(dead, nil), "", "dlx", nil)
	ch.Queue(source, with(amqp091.Table{"x-dead-letter-exchange": "dlx"}, args))
}

// death is an entry of the header x-death, but for its time.
type death struct {
	Count      int64
	Reason     string
	Queue      string
	Exchange   string
	Keys       []string
	Expiration string // that the message was published with, if any
}

// WantDeaths checks all of a message's header x-death.
func (b *Bench) WantDeaths(d amqp091.Delivery, want ...death) {
	b.t.Helper()
	if got := b.Deaths(d); !reflect.DeepEqual(got, want) {
		b.t.Fatalf("deaths of message %q:\ngot  %+v\nwant %+v", d.Body, got, want)
	}
}

// Deaths are the entries of a message's header x-death, the newest first.
func (b *Bench) Deaths(d amqp091.Delivery) []death {
	b.t.Helper()
	entries, ok := d.Headers["x-death"].([]any)
	if !ok {
		b.t.Fatalf("header x-death of message %q: got %#v, want an array", d.Body, d.Headers["x-death"])
	}
	var deaths []death
	for _, entry := range entries {
		deaths = append(deaths, b.death(entry))
	}
	return deaths
}

// death reads an entry of x-death, in which every field has to be of the right type.
func (b *Bench) death(entry any) death {
	b.t.Helper()
	table, ok := entry.(amqp091.Table)
	if !ok {
		b.t.Fatalf("entry of x-death: got %#v, want a table", entry)
	}
	var got death
	for key, value := range table {
		switch value := value.(type) {
		case int64:
			ok = key == "count"
			got.Count = value
		case time.Time:
			ok = key == "time" && time.Since(value).Abs() < time.Minute
		case []any:
			ok = key == "routing-keys"
			for _, routingKey := range value {
				text, _ := routingKey.(string)
				got.Keys = append(got.Keys, text)
			}
		case string:
			field, known := map[string]*string{
				"reason": &got.Reason, "queue": &got.Queue, "exchange": &got.Exchange, "original-expiration": &got.Expiration,
			}[key]
			if ok = known; ok {
				*field = value
			}
		default:
			ok = false
		}
		if !ok {
			b.t.Fatalf("field %q of x-death: got %T %v, which does not belong there", key, value, value)
		}
	}
	if _, timed := table["time"]; !timed {
		b.t.Fatalf("entry of x-death: got %v, want a time in it", table)
	}
	return got
}

// WantFirstDeath checks the headers of a message's first death.
func (b *Bench) WantFirstDeath(d amqp091.Delivery, reason, queue, exchange string) {
	b.t.Helper()
	want := [3]any{reason, queue, exchange}
	got := [3]any{d.Headers["x-first-death-reason"], d.Headers["x-first-death-queue"], d.Headers["x-first-death-exchange"]}
	Equal(b, "first death's reason, queue and exchange", got, want)
}
