package protobuf_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/examples/protobuf"
	"github.com/rehop/rehop/rehoptest"
)

// stocked is an event with a message that needs no generated code. Yours is *orderpb.Order or the like.
var stocked = rehop.Event[*structpb.Struct]{
	Exchange: "stock", Key: "item.stocked", Type: "item.stocked.v1",
	Codec: protobuf.Codec{},
}

// An event is published, and its handler gets an equal value.
func TestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rehoptest.Open(t)
		want, err := structpb.NewStruct(map[string]any{"item": "lamp", "count": 3, "tags": []any{"red", "sale"}})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *structpb.Struct, 1)
		_, err = b.Client.Subscribe(t.Context(), rehop.Subscriber{
			Queue: "stock-list", Exchange: "stock", Keys: []string{"item.#"},
			Handler: stocked.Handler(func(_ context.Context, s *structpb.Struct) error {
				got <- s
				return nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := stocked.Publish(t.Context(), b.Client, want); err != nil {
			t.Fatal(err)
		}
		if s := <-got; !proto.Equal(s, want) {
			t.Errorf("got %v, want %v", s, want)
		}
	})
}

// What is not a message of Protocol Buffers goes to the failed queue at once, with kind decode.
func TestNotProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rehoptest.Open(t)
		_, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{
			Queue: "stock-list", Exchange: "stock", Keys: []string{"item.#"},
			Handler: stocked.Handler(func(context.Context, *structpb.Struct) error { return nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "stock", Key: "item.stocked", Body: []byte(`{"item": "lamp"}`)}); err != nil {
			t.Fatal(err)
		}
		if failed := b.AwaitFailed("stock-list", 1); failed[0].Kind != rehop.KindDecode {
			t.Errorf("got kind %s, want %s", failed[0].Kind, rehop.KindDecode)
		}
	})
}

// Schemas can differ: a field that a consumer does not know is no error, and is kept.
func TestUnknownFields(t *testing.T) {
	const field15 = "\x7a\x01x" // which wrapperspb.StringValue does not have
	older := new(wrapperspb.StringValue)
	if err := (protobuf.Codec{}).Unmarshal([]byte(field15), older); err != nil {
		t.Fatal(err)
	}
	if again, err := (protobuf.Codec{}).Marshal(older); err != nil || string(again) != field15 {
		t.Errorf("got %q, %v, want %q", again, err, field15)
	}
}

// An event of a type that is no message is a mistake, which the error names.
func TestOtherTypes(t *testing.T) {
	if _, err := (protobuf.Codec{}).Marshal("lamp"); err == nil {
		t.Error("a string was encoded")
	}
	if err := (protobuf.Codec{}).Unmarshal(nil, new(string)); err == nil {
		t.Error("a string was decoded")
	}
}
