package rehop

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// publishing is what goes over the wire for a message.
func publishing(m *Message, keepUnroutable bool) (*rabbit.Publishing, error) {
	p := new(rabbit.Publishing)
	return p, m.publishing(p, keepUnroutable)
}

func TestPublishing(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 0)
	m := Message{ID: "id", Body: []byte("b"), ContentType: "ct", ContentEncoding: "ce", Priority: 3, Expiration: 1500 * time.Millisecond, Timestamp: at,
		CorrelationID: "c", ReplyTo: "r", Type: "t", AppID: "a", Headers: map[string]any{"h": "v"}}
	got, err := publishing(&m, true)
	if err != nil {
		t.Fatal(err)
	}
	want := &rabbit.Publishing{MessageId: "id", Body: []byte("b"), ContentType: "ct", ContentEncoding: "ce", Priority: 3, Expiration: "1500", Timestamp: at,
		CorrelationId: "c", ReplyTo: "r", Type: "t", AppId: "a", DeliveryMode: rabbit.Persistent, Headers: rabbit.Table{"h": "v"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPublishingDefaults(t *testing.T) {
	t.Parallel()
	began := time.Now()
	a, err := publishing(&Message{}, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := publishing(&Message{Transient: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	if a.DeliveryMode != rabbit.Persistent || b.DeliveryMode != rabbit.Transient {
		t.Errorf("delivery modes: got %d and %d, want persistent and transient", a.DeliveryMode, b.DeliveryMode)
	}
	if a.Timestamp.Before(began) || a.Timestamp.After(time.Now()) {
		t.Errorf("timestamp: got %v, want now", a.Timestamp)
	}
	if a.Expiration != "" {
		t.Errorf("expiration: got %q, want none", a.Expiration)
	}
}

func TestReturnHeader(t *testing.T) {
	t.Parallel()
	headers := map[string]any{"h": "v"}
	for _, m := range []*Message{{Exchange: "x"}, {Exchange: "x", Headers: map[string]any{}}, {Exchange: "x", Headers: headers}} {
		p, err := publishing(m, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Headers[layouts.HeaderReturn]; got != true {
			t.Errorf("%v: got %s %v, want true", m.Headers, layouts.HeaderReturn, got)
		}
		p, err = publishing(m, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.Headers[layouts.HeaderReturn]; ok {
			t.Errorf("%v, to be kept: got %s %v, want none", m.Headers, layouts.HeaderReturn, got)
		}
		m.Exchange = ""
		p, err = publishing(m, false)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.Headers[layouts.HeaderReturn]; ok {
			t.Errorf("%v, to the default exchange, which keeps nothing: got %s %v, want none", m.Headers, layouts.HeaderReturn, got)
		}
	}
	if len(headers) != 1 {
		t.Errorf("the caller's headers: got %v, want them unchanged", headers)
	}
}

func TestPublishingRefuses(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Message{
		"negative expiration": {Expiration: -1}, "expiration beyond RabbitMQ's limit": {Expiration: maxTTL + time.Millisecond}, "header of rehop's": {Headers: map[string]any{"rehop-attempt": 1}},
	} {
		if _, err := publishing(&m, false); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
	for d, want := range map[time.Duration]string{time.Nanosecond: "1", time.Millisecond: "1", 2500 * time.Microsecond: "2", time.Hour: "3600000", maxTTL: "315360000000"} {
		if p, err := publishing(&Message{Expiration: d}, false); err != nil || p.Expiration != want {
			t.Errorf("expiration %v: got %q, %v; want %q", d, p.Expiration, err, want)
		}
	}
}

func TestExpirationText(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{"": 0, "0": 0, "1": time.Millisecond, "1500": 1500 * time.Millisecond, "x": 0, "1.5": 0, "99999999999999999999": 0} {
		if got := expiration(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

func TestNewID(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 10_000 {
		id := NewID()
		if len(id) != 36 || seen[id] {
			t.Fatalf("got %q, want 36 characters that were never there before", id)
		}
		seen[id] = true
	}
}
