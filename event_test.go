package rehop_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

func TestEventMessage(t *testing.T) {
	t.Parallel()
	m, err := OrderPlaced.Message(Order{Number: 7, Buyer: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Exchange != "orders" || m.Key != "order.placed" || m.Type != "order.placed.v1" || m.ContentType != "application/json" ||
		string(m.Body) != `{"number":7,"buyer":"Ada"}` || m.ID != "" {
		t.Errorf("got %+v with body %s, want what the event says, and no id", m, m.Body)
	}
	if got, err := OrderPlaced.Decode(m); err != nil || got != (Order{7, "Ada"}) {
		t.Errorf("decoded: got %+v and %v, want order 7 of Ada", got, err)
	}
}

func TestEventCannotEncode(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		bad := rehop.Event[chan int]{Key: "q"}
		if _, err := bad.Message(nil); !errors.Is(err, rehop.ErrInvalid) || !strings.Contains(err.Error(), "encode chan int as application/json") {
			t.Errorf("message: got %v, want ErrInvalid that names the type", err)
		}
		if err := bad.Publish(t.Context(), b.Client, nil); !errors.Is(err, rehop.ErrInvalid) || !strings.Contains(err.Error(), `key "q"`) {
			t.Errorf("publish: got %v, want ErrInvalid that names the key", err)
		}
	})
}

// The whole of a message can be set, and the handler of the event finds it in its context.
func TestEventPublishWithMore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		placed := rehop.Event[Order]{Key: "q", Type: "order.placed.v1"}
		clock, got := startClock(), make(chan rehop.Delivery, 1)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: placed.Handler(func(ctx context.Context, o Order) error {
			if o != (Order{Number: 7}) {
				t.Errorf("value: got %+v, want order 7", o)
			}
			got <- *rehop.DeliveryFrom(ctx)
			return nil
		})})
		err := placed.Publish(t.Context(), b.Client, Order{Number: 7},
			func(m *rehop.Message) { m.ID, m.Delay = "order-7", time.Hour },
			func(m *rehop.Message) { m.Headers = map[string]any{"tenant": "a"} })
		if err != nil {
			t.Fatal(err)
		}
		d := <-got
		within(t, "it comes", clock.now(), time.Hour, time.Hour+time.Second)
		if d.ID != "order-7" || d.Type != "order.placed.v1" || d.ContentType != "application/json" || !maps.Equal(d.Headers, map[string]any{"tenant": "a"}) {
			t.Errorf("got %+v, want the id, type, content type and headers that were set", d.Message)
		}
	})
}

// What cannot be decoded fails at once with a kind of its own, also if it names another version.
func TestEventCannotDecode(t *testing.T) {
	for name, m := range map[string]rehop.Message{
		"no JSON":         {Body: []byte("{")},
		"another version": {Body: []byte("{}"), Type: "order.placed.v2"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Hour),
					Handler: OrderPlaced.Handler(func(context.Context, Order) error {
						t.Error("the handler was called")
						return nil
					})})
				m.Key = "q"
				publish(t, b.Client, m)
				if f := b.AwaitFailed("q", 1)[0]; f.Kind != "decode" || f.Attempts != 1 || !strings.Contains(f.Error, "decode body as rehop_test.Order") {
					t.Errorf("got kind %q, attempts %d, error %q; want decode, 1, and the type", f.Kind, f.Attempts, f.Error)
				}
			})
		})
	}
}

// What other programs publish has no type, and an event without a type takes any.
func TestEventTypesThatFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event rehop.Event[Order]
		sent  string
	}{
		"same":          {OrderPlaced, "order.placed.v1"},
		"message names": {rehop.Event[Order]{}, "order.placed.v2"},
		"event names":   {OrderPlaced, ""},
	} {
		if got, err := c.event.Decode(rehop.Message{Type: c.sent, Body: []byte(`{"number": 7}`)}); err != nil || got.Number != 7 {
			t.Errorf("%s: got %+v and %v, want order 7", name, got, err)
		}
	}
}

// echo is a codec that keeps what it is given.
type echo struct{ marshaled, unmarshaled any }

func (*echo) ContentType() string { return "text/plain" }

func (e *echo) Marshal(v any) ([]byte, error) {
	e.marshaled = v
	return nil, nil
}

func (e *echo) Unmarshal(_ []byte, v any) error {
	e.unmarshaled = v
	if o, ok := v.(*Order); ok {
		o.Number = 7
	}
	return nil
}

// A codec gets the same pointer for a type and for its pointer type: generated code has its methods there.
func TestCodecGetsThePointer(t *testing.T) {
	t.Parallel()
	type named *Order
	c := &echo{}
	wantOrder := func(what string, decoded *Order, err error) {
		t.Helper()
		if o, ok := c.unmarshaled.(*Order); err != nil || !ok || decoded == nil || decoded.Number != 7 || o.Number != 7 {
			t.Errorf("%s: the codec got %T, and Decode returned %+v and %v; want a *Order, and order 7", what, c.unmarshaled, decoded, err)
		}
	}
	pointer, err := rehop.Event[*Order]{Codec: c}.Decode(rehop.Message{})
	wantOrder("pointer", pointer, err)
	value, err := rehop.Event[Order]{Codec: c}.Decode(rehop.Message{})
	wantOrder("value", &value, err)
	alias, err := rehop.Event[named]{Codec: c}.Decode(rehop.Message{})
	wantOrder("named pointer", alias, err)
	if _, err := (rehop.Event[*Order]{Codec: c}).Message(&Order{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.marshaled.(*Order); !ok {
		t.Errorf("marshal: the codec got %T, want *Order", c.marshaled)
	}
}

// JSON of a pointer type is as in encoding/json.
func TestEventOfPointerInJSON(t *testing.T) {
	t.Parallel()
	event := rehop.Event[*Order]{}
	if o, err := event.Decode(rehop.Message{Body: []byte(`{"number": 7}`)}); err != nil || o == nil || o.Number != 7 {
		t.Errorf("got %+v and %v, want order 7", o, err)
	}
	if o, err := event.Decode(rehop.Message{Body: []byte("null")}); err != nil || o != nil {
		t.Errorf("null: got %+v and %v, want nil", o, err)
	}
}
