package delivery

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deaths are entries of x-death.
func deaths(entries ...amqp.Table) amqp.Table {
	var list []any
	for _, e := range entries {
		list = append(list, e)
	}
	return amqp.Table{"x-death": list}
}

func entry(queue, reason string, count int64) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "exchange": "origin", "routing-keys": []any{boundKey}}
}

// moved are the headers of a message that rehop has moved, of a queue of the script.
func moved(s Script, attempts int32, further amqp.Table) amqp.Table {
	headers := amqp.Table{"rehop-queue": s.Queues[0], "rehop-exchange": s.Exchange, "rehop-key": boundKey, "rehop-attempt": attempts}
	for name, value := range further {
		headers[name] = value
	}
	return headers
}

func wrapped(body []byte, attempts int) []byte {
	lines := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) + `\n` }
	return fmt.Appendf(nil, `{"error":"no","num_attempts":%d,"failed_at":%q,"payload":"%s","properties":"%s"}`,
		attempts, time.Now().Format(time.RFC3339), lines(body), lines([]byte(`{"content_type":"text/plain"}`)))
}

func added(body []byte, members string) []byte {
	return []byte(strings.TrimSuffix(string(body), "}") + "," + members + "}")
}

// TestRecordsAreRead shows the checker messages with the record that a layout wants, and with others.
func TestRecordsAreRead(t *testing.T) {
	for _, c := range []struct {
		layout, name string
		place        Place
		build        func(s Script, m amqp.Delivery) amqp.Delivery
		flawed       bool
	}{
		{"PubSub", "the newest entry has the count", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, deaths(entry("rehop.step.300ms", "expired", 2), entry(s.Queues[0]+"@retry", "expired", 2)))
			return d
		}, false},
		{"PubSub", "only an older entry has the count", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, deaths(entry("rehop.step.300ms", "expired", 1), entry(s.Queues[0]+"@retry", "expired", 2)))
			return d
		}, true},
		{"PubSub", "another routing key", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 1, deaths(entry("rehop.step.300ms", "expired", 1), entry(s.Queues[0]+"@retry", "expired", 1)))
			d.RoutingKey = s.Queues[0]
			return d
		}, true},
		{"PubSub", "no entry", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 1, nil)
			return d
		}, true},
		{"Sneakers", "its queue has the count", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, deaths(entry("rehop.step.300ms", "expired", 1), entry(s.Queues[0], "rejected", 2)))
			return d
		}, false},
		{"Sneakers", "one too few", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, deaths(entry(s.Queues[0], "rejected", 1)))
			return d
		}, true},
		{"Sneakers", "a document with the attempts", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers, d.Body, d.ContentType = moved(s, 3, nil), wrapped(d.Body, 3), "application/json"
			return d
		}, false},
		{"Sneakers", "a document with other attempts", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers, d.Body, d.ContentType = moved(s, 3, nil), wrapped(d.Body, 2), "application/json"
			return d
		}, true},
		{"Tiers", "the sum of the tiers", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 3, deaths(entry("delay.1s", "expired", 1), entry("delay.300ms", "expired", 2)))
			return d
		}, false},
		{"Tiers", "one too many", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 1, deaths(entry("delay.1s", "expired", 1), entry("delay.300ms", "expired", 1)))
			return d
		}, true},
		{"Envelope", "the body has the count", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers, d.Body = moved(s, 2, nil), added(d.Body, `"retry_count":2`)
			return d
		}, false},
		{"Envelope", "the body has another", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers, d.Body = moved(s, 2, nil), added(d.Body, `"retry_count":3`)
			return d
		}, true},
		{"Envelope", "the body has none", InSight, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 1, nil)
			return d
		}, true},
		{"Envelope", "the reason", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers, d.Body = moved(s, 4, nil), added(d.Body, `"retry_count":3,"dead_reason":"retry_limit"`)
			return d
		}, false},
		{"Envelope", "no reason", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers, d.Body = moved(s, 4, nil), added(d.Body, `"retry_count":3`)
			return d
		}, true},
		{"DLX", "rejected in its queue", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, deaths(entry(s.Queues[0], "rejected", 1)))
			return d
		}, false},
		{"DLX", "rejected in another queue", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, deaths(entry(s.Queues[1], "rejected", 1)))
			return d
		}, true},
		{"DLX", "no entry", InFailed, func(s Script, d amqp.Delivery) amqp.Delivery {
			d.Headers = moved(s, 2, nil)
			return d
		}, true},
	} {
		t.Run(c.layout+"/"+c.name, func(t *testing.T) {
			s, err := LayoutScript(c.layout, 7)
			if err != nil {
				t.Fatal(err)
			}
			m := s.Message("a.1")
			plain := amqp.Delivery{MessageId: m.ID, RoutingKey: m.Key, Body: m.Body, ContentType: m.ContentType, CorrelationId: m.CorrelationID, Type: m.Type}
			built := c.build(s, plain)
			for name, value := range m.Headers {
				built.Headers[name] = value
			}
			e := s.found(searched{place: c.place}, built)
			if (e.Flaw != "") != c.flawed {
				t.Errorf("flaw %q, want one: %v", e.Flaw, c.flawed)
			}
			if e.Queue != s.Queues[0] || e.Body != s.digest(m.Body) || e.Body == 0 {
				t.Errorf("got queue %q, body %x, want %q, %x", e.Queue, e.Body, s.Queues[0], s.digest(m.Body))
			}
			if want := digestMeta(s.Exchange, boundKey, m.ContentType, m.CorrelationID, m.Type, m.Headers); e.Meta != want {
				t.Errorf("got meta %x, want %x: what was published", e.Meta, want)
			}
		})
	}
}

// TestForgottenRecords shows the checker messages of a broker that ignores the x-death which a client sends: the record may have too little,
// but not too much, and a record in the body is as good as ever.
func TestForgottenRecords(t *testing.T) {
	for _, c := range []struct {
		layout, name string
		failures     int32
		record       func(s Script) amqp.Table
		body         string
		flawed       bool
	}{
		{"PubSub", "the last wait", 3, func(s Script) amqp.Table { return deaths(entry("rehop.step.300ms", "expired", 1)) }, "", false},
		{"PubSub", "a wait without a failure", 0, func(s Script) amqp.Table { return deaths(entry("rehop.step.300ms", "expired", 1)) }, "", true},
		{"Sneakers", "nothing", 2, func(Script) amqp.Table { return nil }, "", false},
		{"Sneakers", "one too many", 1, func(s Script) amqp.Table { return deaths(entry(s.Queues[0], "rejected", 2)) }, "", true},
		{"Tiers", "the last wait", 2, func(Script) amqp.Table { return deaths(entry("delay.1s", "expired", 1)) }, "", false},
		{"Tiers", "two waits for one failure", 1, func(Script) amqp.Table {
			return deaths(entry("delay.1s", "expired", 1), entry("delay.300ms", "expired", 1))
		}, "", true},
		{"Envelope", "the body has the count", 2, func(Script) amqp.Table { return nil }, `"retry_count":2`, false},
		{"Envelope", "the body has too little", 2, func(Script) amqp.Table { return nil }, `"retry_count":1`, true},
	} {
		t.Run(c.layout+"/"+c.name, func(t *testing.T) {
			s, err := LayoutScript(c.layout, 7)
			if err != nil {
				t.Fatal(err)
			}
			s.ForgetsDeaths = true
			d := amqp.Delivery{RoutingKey: boundKey, Headers: moved(s, c.failures, c.record(s)), Body: s.Message("a.1").Body}
			if c.body != "" {
				d.Body = added(d.Body, c.body)
			}
			if e := s.found(searched{place: InSight}, d); (e.Flaw != "") != c.flawed {
				t.Errorf("flaw %q, want one: %v", e.Flaw, c.flawed)
			}
		})
	}
}

// TestFoundWhereAllShareAQueue: the owner of a message is found from its headers.
func TestFoundWhereAllShareAQueue(t *testing.T) {
	s, err := LayoutScript("DLX", 7)
	if err != nil {
		t.Fatal(err)
	}
	shared := searched{name: "dlq", place: InFailed}
	for _, c := range []struct {
		name    string
		headers amqp.Table
		place   Place
		queue   string
	}{
		{"moved by rehop", moved(s, 2, nil), InFailed, s.Queues[0]},
		{"dead-lettered by the broker", deaths(entry(s.Queues[1], "maxlen", 1)), InFailed, s.Queues[1]},
		{"nobody's", amqp.Table{}, InUnrouted, ""},
	} {
		if e := s.found(shared, amqp.Delivery{Headers: c.headers}); e.Place != c.place || e.Queue != c.queue {
			t.Errorf("%s: got %s of %q, want %s of %q", c.name, e.Place, e.Queue, c.place, c.queue)
		}
	}
}

// TestBrokerCounts takes the count of a layout that leaves it to the broker.
func TestBrokerCounts(t *testing.T) {
	s, err := LayoutScript("SneakersReject", 7)
	if err != nil {
		t.Fatal(err)
	}
	queue := s.Queues[0]
	e := s.found(searched{place: InSight}, amqp.Delivery{RoutingKey: boundKey, Headers: deaths(entry(queue+"-retry", "expired", 2), entry(queue, "rejected", 2))})
	if e.Kind != Returned || e.Queue != queue || e.Number != 2 || e.Flaw != "" {
		t.Errorf("got %+v, want it returned to %s after 2 failures", e, queue)
	}
}

func TestObjectCarriesItsHash(t *testing.T) {
	s, err := LayoutScript("Envelope", 7)
	if err != nil {
		t.Fatal(err)
	}
	body := s.Message("a.17").Body
	want := s.digest(body)
	if want == 0 {
		t.Fatalf("%s does not carry its hash", body)
	}
	if got := s.digest(added(body, `"retry_count":3,"dead_reason":"x"`)); got != want {
		t.Errorf("digest with the layout's members: got %x, want %x", got, want)
	}
	for _, change := range [][2]string{
		{"a.17", "a.18"}, {"1234567890123456789.10", "1234567890123456800"}, {`\u00fc`, `ü`}, {`{"x" :null}`, `{}`}, {`"lines"`, `"line"`},
	} {
		if got := s.digest([]byte(strings.Replace(string(body), change[0], change[1], 1))); got == want {
			t.Errorf("%s became %s, and the digest is the same", change[0], change[1])
		}
	}
}
