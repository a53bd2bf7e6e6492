package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// named is a handler that returns an error with its name, to see which one is called.
func named(name string) rehop.Handler {
	return rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New(name) })
}

func TestMuxChooses(t *testing.T) {
	t.Parallel()
	mux := new(rehop.Mux)
	mux.HandleKey("#", named("all"))
	mux.HandleKey("order.*", named("order, one word"))
	mux.HandleKey("order.#", named("order, any words"))
	mux.HandleKey("*.placed", named("placed"))
	mux.HandleKey("order.placed", named("exact"))
	mux.HandleKey("#.eu.#", named("eu"))
	mux.HandleKey("#.de.#", named("de"))
	mux.HandleType("order.placed.v1", named("v1"))
	mux.HandleType("order.placed.v2", named("v2"))
	for _, c := range []struct{ kind, key, want string }{
		{"order.placed.v1", "order.placed", "v1"},
		{"order.placed.v2", "order.placed", "v2"},
		{"order.placed.v2", "elsewhere", "v2"},
		{"order.placed.v3", "order.placed", "exact"},
		{"", "order.placed", "exact"},
		{"", "order.paid", "order, one word"},
		{"", "order.paid.late", "order, any words"},
		{"", "order", "order, any words"},
		{"", "invoice.placed", "placed"},
		{"", "invoice.paid", "all"},
		{"", "shop.de.eu.x", "eu"}, // it was registered before de
		{"", "", "all"},
	} {
		if got := mux.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Type: c.kind, Key: c.key}}); got.Error() != c.want {
			t.Errorf("type %q, key %q: got %v, want %s", c.kind, c.key, got, c.want)
		}
	}
}

// A pattern matches the keys that the broker routes by it.
func TestMuxMatchesLikeTheBroker(t *testing.T) {
	patterns := []string{"#", "*", "a", "a.b", "*.b", "a.*", "a.#", "#.b", "#.b.#", "*.*", "a.#.b", "#.a.*.b.#", "a..b", "a.*.b", "#.*", "*.#.*", ".", "a#", "*a"}
	keys := []string{"", "a", "b", "a.b", "b.a", "a.a.b", "a.b.a", "a.b.b", "a.x.b", "x.a.y.b.z", "a.a.x.b.b", "a..b", ".", "..", "a.", ".b", "#", "*", "a#", "xa", "*.b"}
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		for i, pattern := range patterns {
			exchange := fmt.Sprintf("x%d", i)
			subscribe(t, b.Client, rehop.Subscriber{Queue: "q-" + exchange, Exchange: exchange, Keys: []string{pattern}, Handler: rehop.HandlerFunc(succeed)})
			mux := new(rehop.Mux)
			mux.HandleKey(pattern, rehop.HandlerFunc(succeed))
			for _, key := range keys {
				err := b.Client.Publish(t.Context(), rehop.Message{Exchange: exchange, Key: key})
				if err != nil && !errors.Is(err, rehop.ErrUnroutable) {
					t.Fatal(err)
				}
				found := mux.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Key: key}}) == nil
				if routed := err == nil; found != routed {
					t.Errorf("pattern %q, key %q: the mux matches: %t, the broker routes: %t; want the same", pattern, key, found, routed)
				}
			}
			b.AwaitEmpty("q-" + exchange)
		}
	})
}

// A message without a handler fails at once, with the reason.
func TestMuxWithoutHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: new(rehop.Mux), Retry: rehop.Steps(time.Hour)})
		publish(t, b.Client, rehop.Message{Key: "q", Type: "order.placed.v3"})
		publish(t, b.Client, rehop.Message{Key: "q"})
		for i, want := range []string{`no handler for type "order.placed.v3"`, `no handler for routing key "q"`} {
			if f := b.AwaitFailed("q", 2)[i]; f.Kind != "permanent" || f.Attempts != 1 || !strings.Contains(f.Error, want) {
				t.Errorf("got kind %q, attempts %d, error %q; want permanent, 1, %q", f.Kind, f.Attempts, f.Error, want)
			}
		}
	})
}

func TestMuxNotFound(t *testing.T) {
	t.Parallel()
	mux := &rehop.Mux{NotFound: named("not found")}
	mux.HandleType("a", named("a"))
	if err := mux.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Type: "b"}}); err == nil || err.Error() != "not found" {
		t.Errorf("got %v, want that of NotFound", err)
	}
}

func TestEventRegister(t *testing.T) {
	t.Parallel()
	var got []string
	note := func(name string) func(context.Context, Order) error {
		return func(_ context.Context, o Order) error {
			got = append(got, fmt.Sprint(name, o.Number))
			return nil
		}
	}
	mux := new(rehop.Mux)
	OrderPlaced.Register(mux, note("type"))
	rehop.Event[Order]{Key: "order.paid"}.Register(mux, note("key"))
	for _, m := range []rehop.Message{{Type: OrderPlaced.Type, Body: []byte(`{"number": 1}`)}, {Key: "order.paid", Body: []byte(`{"number": 2}`)}} {
		if err := mux.Handle(t.Context(), &rehop.Delivery{Message: m}); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	}
	if fmt.Sprint(got) != "[type1 key2]" {
		t.Errorf("got %v, want the value of the first by its type and that of the second by its key", got)
	}
}

// Mistakes in registering are seen when the program starts, as with net/http.
func TestMuxPanics(t *testing.T) {
	t.Parallel()
	mux := new(rehop.Mux)
	mux.HandleKey("order.*", named("key"))
	mux.HandleType("order.placed.v1", named("type"))
	ignore := func(context.Context, Order) error { return nil }
	for want, register := range map[string]func(){
		`key "order.*" already has a handler`:          func() { mux.HandleKey("order.*", named("another")) },
		`type "order.placed.v1" already has a handler`: func() { OrderPlaced.Register(mux, ignore) },
		"the type is empty":                            func() { mux.HandleType("", named("no type")) },
		`the handler for type "x" is nil`:              func() { mux.HandleType("x", nil) },
		`the handler for key "x" is nil`:               func() { mux.HandleKey("x", nil) },
		"has neither a type nor a key":                 func() { rehop.Event[Order]{}.Register(mux, ignore) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got panic %q, want one with %q", got, want)
				}
			}()
			register()
		}()
	}
}
