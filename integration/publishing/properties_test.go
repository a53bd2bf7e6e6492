package publishing

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestPropertiesRoundTrip(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	got := subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "order"})
	for _, m := range []rehop.Message{
		{},
		{ID: "id", Body: []byte("body"), ContentType: "text/plain", ContentEncoding: "gzip", Transient: true, Priority: 9,
			Expiration: time.Hour + time.Millisecond, Timestamp: time.Unix(1234567890, 0), CorrelationID: "correlation",
			ReplyTo: "reply", Type: "type", AppID: "app"},
		{ID: strings.Repeat("i", 255), Body: []byte{0, 1, 0xce, 255}, CorrelationID: strings.Repeat("ü", 127)},
		{Body: make([]byte, 1<<20)}, // more than a frame
	} {
		m.Exchange, m.Key = "order", "a.b"
		before := time.Now().Truncate(time.Second)
		kit.Publish(t, c, m)
		d := kit.Receive(t, got, "message").d.Message
		if m.ID == "" {
			if d.ID == "" {
				t.Error("got no id, want a new one")
			}
			m.ID = d.ID
		}
		if m.Timestamp.IsZero() {
			if d.Timestamp.Before(before) || d.Timestamp.After(time.Now()) {
				t.Errorf("got timestamp %v, want now", d.Timestamp)
			}
			m.Timestamp = d.Timestamp
		}
		if !d.Timestamp.Equal(m.Timestamp) {
			t.Errorf("got timestamp %v, want %v", d.Timestamp, m.Timestamp)
		}
		d.Timestamp = m.Timestamp
		if len(d.Body) != len(m.Body) || string(d.Body) != string(m.Body) {
			t.Errorf("got a body of %d bytes, want the %d that were published", len(d.Body), len(m.Body))
		}
		d.Body, m.Body = nil, nil
		if !reflect.DeepEqual(d, m) {
			t.Errorf("got  %+v\nwant %+v", d, m)
		}
	}
}

func TestHeadersRoundTrip(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	got := subscribe(t, c, rehop.Subscriber{Queue: "q"})
	moment := time.Unix(1700000000, 0)
	for _, test := range []struct {
		name       string
		sent, want any // nil want: as sent
	}{
		{name: "nil"},
		{name: "string", sent: "text"},
		{name: "empty string", sent: ""},
		{name: "not UTF-8", sent: "\xff\xfe"},
		{name: "bool", sent: true},
		{name: "bytes", sent: []byte{0, 1, 255}},
		{name: "time", sent: moment},
		{name: "int8", sent: int8(-5)},
		{name: "uint8", sent: uint8(200)},
		{name: "int16", sent: int16(-30000)},
		{name: "uint16", sent: uint16(60000)},
		{name: "int32", sent: int32(math.MinInt32)},
		{name: "uint32", sent: uint32(math.MaxUint32)},
		{name: "int64", sent: int64(math.MaxInt64)},
		{name: "uint64", sent: uint64(math.MaxInt64), want: int64(math.MaxInt64)},
		{name: "uint", sent: uint(7), want: int64(7)},
		{name: "float32", sent: float32(1.5)},
		{name: "float64", sent: math.Pi},
		{name: "list", sent: []any{"a", int32(1), []any{true}, nil}},
		{name: "empty list", sent: []any{}},
		{name: "strings", sent: []string{"a", "b"}, want: []any{"a", "b"}},
		{name: "map", sent: map[string]any{"a": int64(1), "b": map[string]any{"c": []any{map[string]any{"d": "e"}}}}},
		{name: "empty map", sent: map[string]any{}},
		{name: "time in a list", sent: []any{moment}},
	} {
		if test.want == nil {
			test.want = test.sent
		}
		before := fmt.Sprintf("%#v", test.sent)
		if err := c.Publish(kit.Context(t), rehop.Message{Key: "q", Headers: map[string]any{"h": test.sent, "other": "x"}}); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if after := fmt.Sprintf("%#v", test.sent); after != before {
			t.Errorf("%s: publishing changed the caller's value from %s to %s", test.name, before, after)
		}
		d := kit.Receive(t, got, "message").d
		if len(d.Headers) != 2 {
			t.Errorf("%s: got headers %v, want two", test.name, d.Headers)
		}
		wantNoDriverTypes(t, test.name, d.Headers)
		if h := normal(d.Headers["h"]); !reflect.DeepEqual(h, normal(test.want)) {
			t.Errorf("%s: got %#v, want %#v", test.name, h, test.want)
		}
	}
	// An int has no type of its own in AMQP: its value must survive, whatever its width.
	for _, n := range []int{0, -1, math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, 5_000_000_000, math.MinInt64, math.MaxInt64} {
		for name, v := range map[string]any{"top": n, "in a list": []any{n}, "in a map": map[string]any{"n": n}} {
			if err := c.Publish(kit.Context(t), rehop.Message{Key: "q", Headers: map[string]any{"h": v}}); err != nil {
				t.Errorf("int %d %s: %v", n, name, err)
				continue
			}
			h := kit.Receive(t, got, "message").d.Headers["h"]
			switch c := h.(type) {
			case []any:
				h = c[0]
			case map[string]any:
				h = c["n"]
			}
			if fmt.Sprint(h) != fmt.Sprint(n) {
				t.Errorf("int %s: got %v (%T), want %d", name, h, h, n)
			}
		}
	}
}

// normal makes times comparable.
func normal(v any) any {
	switch v := v.(type) {
	case time.Time:
		return v.Unix()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = normal(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = normal(v[k])
		}
		return out
	}
	return v
}

// wantNoDriverTypes looks for types of amqp091-go.
func wantNoDriverTypes(t testing.TB, name string, v any) {
	t.Helper()
	if v == nil {
		return
	}
	if p := reflect.TypeOf(v).PkgPath(); strings.Contains(p, "amqp") {
		t.Errorf("%s: got a value of type %T, want no type of amqp091-go", name, v)
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			wantNoDriverTypes(t, name, e)
		}
	case map[string]any:
		for _, e := range v {
			wantNoDriverTypes(t, name, e)
		}
	}
}

// What other clients send, with types that rehop itself does not use.
func TestForeignHeaders(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	got := subscribe(t, c, rehop.Subscriber{Queue: "q"})
	ch := r.Channel()
	headers := amqp.Table{
		"decimal": amqp.Decimal{Scale: 2, Value: 314}, "table": amqp.Table{"inner": amqp.Table{"d": amqp.Decimal{Scale: 1, Value: 5}}},
		"list": []any{amqp.Table{"x": "y"}, amqp.Decimal{Scale: 0, Value: 1}, []any{amqp.Table{}}}, "void": nil,
	}
	if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Headers: headers, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	d := kit.Receive(t, got, "message").d
	if len(d.Headers) != len(headers) {
		t.Errorf("got headers %v, want %d of them", d.Headers, len(headers))
	}
	wantNoDriverTypes(t, "headers", d.Headers)
	if s := fmt.Sprint(d.Headers["decimal"]); s != "3.14" {
		t.Errorf("got decimal %v, want 3.14 in some form", s)
	}
}
