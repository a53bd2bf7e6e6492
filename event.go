package rehop

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/rehop/rehop/internal/consume"
)

// Event is a kind of message whose body is a value of type T. Declare it once, where publishers and
// handlers can both use it:
//
//	var OrderPlaced = rehop.Event[Order]{Exchange: "orders", Key: "order.placed", Type: "order.placed.v1"}
//
// The zero value works, too: its handler takes any message with a JSON body.
type Event[T any] struct {
	// Exchange is where values are published to. Default: the default exchange, where Key names a
	// queue.
	Exchange string
	// Key is the routing key.
	Key string
	// Type is the type property of the messages, by which a [Mux] finds the handler. A name that ends in
	// a version, such as "order.placed.v1", lets two versions be in use at the same time. Default: none.
	Type string
	// Codec encodes and decodes the values. Default: JSON.
	Codec Codec
}

// Message encodes v and returns the message, which has no id yet. Use it to publish in another way than
// [Event.Publish] does: in a batch, as a request, or with the outbox. The error is an ErrInvalid.
func (e Event[T]) Message(v T) (Message, error) {
	codec := e.codec()
	body, err := codec.Marshal(v)
	if err != nil {
		return Message{}, fmt.Errorf("%w: encode %T as %s: %w", ErrInvalid, v, codec.ContentType(), err)
	}
	return Message{Exchange: e.Exchange, Key: e.Key, Type: e.Type, ContentType: codec.ContentType(), Body: body}, nil
}

// Publish encodes v and publishes it: see [Client.Publish]. The functions in change, if any, set more of
// the message, such as its id, headers or a delay.
func (e Event[T]) Publish(ctx context.Context, c *Client, v T, change ...func(*Message)) error {
	m, err := e.Message(v)
	if err != nil {
		return fmt.Errorf("publish to exchange %q with key %q: %w", e.Exchange, e.Key, err)
	}
	for _, f := range change {
		f(&m)
	}
	return c.Publish(ctx, m)
}

// Decode returns the value of a message, such as a reply. It is an error if the message names another
// type than the event; a message without a type is decoded.
func (e Event[T]) Decode(m Message) (T, error) {
	var v T
	if e.Type != "" && m.Type != "" && m.Type != e.Type {
		return v, fmt.Errorf("decode body as %T: the message is of type %q, not %q", v, m.Type, e.Type)
	}
	if err := e.unmarshal(m.Body, &v); err != nil {
		return v, fmt.Errorf("decode body as %T: %w", v, err)
	}
	return v, nil
}

// unmarshal passes a *T to the codec. If T is itself a pointer, the codec gets a new T instead of a pointer to
// it: what generated code implements, such as proto.Message, is implemented by that pointer and by no other.
// JSON decodes either, and null leaves a pointer nil. A panic of the codec is an error: only this message is bad,
// not the batch that it is in.
func (e Event[T]) unmarshal(body []byte, v *T) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the codec panicked: %v", r)
		}
	}()
	if t := reflect.TypeFor[T](); e.Codec != nil && t.Kind() == reflect.Pointer {
		value := reflect.New(t.Elem())
		reflect.ValueOf(v).Elem().Set(value.Convert(t))
		return e.Codec.Unmarshal(body, value.Interface())
	}
	return e.codec().Unmarshal(body, v)
}

// Handler makes a handler of a function that takes the decoded value; [DeliveryFrom] returns the rest of
// the message. A message that [Event.Decode] cannot decode goes to the failed queue at once, with the
// reason, and its kind of failure is "decode".
func (e Event[T]) Handler(handle func(ctx context.Context, v T) error) Handler {
	return HandlerFunc(func(ctx context.Context, d *Delivery) error {
		v, err := e.Decode(d.Message)
		if err != nil {
			return &consume.DecodeError{Err: err}
		}
		return handle(ctx, v)
	})
}

// BatchHandler makes a [Batch].Handle of a function that takes the decoded values, and the messages that
// they are from: values[i] is that of all[i]. A message that [Event.Decode] cannot decode goes to the
// failed queue at once, as with [Event.Handler], and the function is called with the others, if any. A
// *BatchError that it returns has an entry for each value. It must not change the order of values.
func (e Event[T]) BatchHandler(handle func(ctx context.Context, values []T, all []*Delivery) error) func(context.Context, []*Delivery) error {
	return func(ctx context.Context, all []*Delivery) error {
		values, decoded := make([]T, 0, len(all)), make([]*Delivery, 0, len(all))
		answers := make([]error, len(all))
		var index []int // of what was decoded, in all
		for i, d := range all {
			v, err := e.Decode(d.Message)
			if err != nil {
				answers[i] = &consume.DecodeError{Err: err}
				continue
			}
			values, decoded, index = append(values, v), append(decoded, d), append(index, i)
		}
		if len(index) > 0 {
			given := slices.Clone(decoded)
			err := handle(ctx, values, given)
			reordered := !slices.Equal(given, decoded)
			if len(index) == len(all) && (err == nil || !reordered) {
				return err
			}
			for i, answer := range batchAnswers(err, len(index), reordered) {
				answers[index[i]] = answer
			}
		}
		return &BatchError{Errors: answers}
	}
}

// Register has a [Mux] call a function for each value: by the event's type, or, if it has none, by its key.
// It panics if the mux already has a handler for it.
func (e Event[T]) Register(mux *Mux, handle func(ctx context.Context, v T) error) {
	switch {
	case e.Type != "":
		mux.HandleType(e.Type, e.Handler(handle))
	case e.Key != "":
		mux.HandleKey(e.Key, e.Handler(handle))
	default:
		panic(fmt.Sprintf("rehop: mux: the event of %T has neither a type nor a key", *new(T)))
	}
}

func (e Event[T]) codec() Codec {
	if e.Codec == nil {
		return jsonCodec{}
	}
	return e.Codec
}
