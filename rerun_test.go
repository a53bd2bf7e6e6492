package rehop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// What a handler sets in its Delivery is not there in the next run.
func TestEachRunSeesTheMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var bodies, keys []string
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Second).WithImmediate(1), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			bodies, keys = append(bodies, string(d.Body)), append(keys, d.Key)
			d.Body, d.Key = []byte("changed"), "changed"
			switch len(bodies) {
			case 1:
				return rehop.Unavailable(errNotYet)
			case 2, 3:
				return errNotYet
			}
			return nil
		})})
		publish(t, b.Client, rehop.Message{Key: "q", Body: []byte("body")})
		b.AwaitEmpty("q")
		if want := slices.Repeat([]string{"body"}, 4); !slices.Equal(bodies, want) {
			t.Errorf("bodies: got %q, want %q", bodies, want)
		}
		if want := slices.Repeat([]string{"q"}, 4); !slices.Equal(keys, want) {
			t.Errorf("keys: got %q, want %q", keys, want)
		}
	})
}

// Messages whose handlers take long and are run again at once are not taken away by the broker.
func TestImmediateRetriesOfSlowHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			time.Sleep(4*time.Minute + 50*time.Second)
			return errNotYet
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Retry: rehop.NoRetry().WithImmediate(2)})
		publish(t, b.Client, rehop.Message{Key: "q"})
		time.Sleep(time.Hour)
		publishMany(t, b.Client, "q", 12)
		time.Sleep(48 * time.Hour)
		if runs, failed := len(log.all()), len(b.Messages("q.failed")); runs != 39 || failed != 13 {
			t.Errorf("got %d runs and %d failed messages, want 39 and 13", runs, failed)
		}
	})
}

// While a batch pauses, only the message that probes runs, also if it is run again at once.
func TestImmediateRetryOfProbe(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		calls := 0
		book := newBatchbook(func(context.Context, []*rehop.Delivery) error {
			switch calls++; calls {
			case 2, 4:
				return rehop.Unavailable(errNotYet)
			case 3:
				return errNotYet
			}
			return nil
		})
		client := openWith(t, b, func(*rehop.Config) {})
		defer client.Close(context.Background())
		subscribe(t, client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute).WithImmediate(2), Batch: rehop.Batch{Size: 5, Handle: book.handle}})
		publishNumbers(t, client, "q", "0")
		time.Sleep(3 * time.Second)
		publishNumbers(t, client, "q", "1", "2", "3", "4", "5")
		time.Sleep(10 * time.Minute)
		var got []int
		for _, call := range book.calls() {
			got = append(got, len(call.ids))
		}
		if want := []int{1, 5, 1, 1, 1, 4}; !slices.Equal(got, want) {
			t.Errorf("messages in each call: got %v, want %v", got, want)
		}
	})
}

type panicCodec struct{}

func (panicCodec) ContentType() string         { return "text/plain" }
func (panicCodec) Marshal(any) ([]byte, error) { return nil, nil }
func (panicCodec) Unmarshal(body []byte, v any) error {
	if string(body) == "bad" {
		panic("bad body")
	}
	*v.(*string) = string(body)
	return nil
}

// A body on which the codec panics fails alone, and not the batch that it is in.
func TestCodecPanicsInBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		e := rehop.Event[string]{Codec: panicCodec{}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Batch: rehop.Batch{Size: 5,
			Handle: e.BatchHandler(func(context.Context, []string, []*rehop.Delivery) error { return nil })}})
		for _, body := range []string{"ok", "ok", "bad", "ok", "ok"} {
			publish(t, b.Client, rehop.Message{Key: "q", Body: []byte(body)})
		}
		b.AwaitEmpty("q")
		failed := b.Messages("q.failed")
		if len(failed) != 1 || string(failed[0].Body) != "bad" || rehop.Kind(failed[0].Kind) != rehop.KindDecode || !strings.Contains(failed[0].Error, "bad body") {
			t.Errorf("failed: got %+v, want the bad one, with kind decode", failed)
		}
	})
}

// Close reports messages of PublishAsync that were sent and whose outcome nobody will learn.
func TestCloseWithUnknownOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(*rehop.Config) {})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		b.HoldConfirms()
		c := client.PublishAsync(t.Context(), rehop.Message{Key: "q"})
		if err := c.Err(); !errors.Is(err, rehop.ErrUnknown) {
			t.Errorf("before the confirm: got %v, want ErrUnknown", err)
		}
		synctest.Wait()
		b.Down()
		time.Sleep(time.Second)
		if err := client.Close(context.Background()); !errors.Is(err, rehop.ErrUnknown) {
			t.Errorf("close: got %v, want ErrUnknown", err)
		}
		if err := c.Err(); !errors.Is(err, rehop.ErrUnknown) {
			t.Errorf("after Close: got %v, want ErrUnknown", err)
		}
		b.ReleaseConfirms()
		b.Up()
	})
}

// The kind of an error can be known before the message has failed.
func TestKindOf(t *testing.T) {
	for want, err := range map[rehop.Kind]error{
		"": nil, rehop.KindError: errNotYet, rehop.KindPermanent: rehop.Permanent(errNotYet), rehop.KindTimeout: context.DeadlineExceeded,
	} {
		if got := rehop.KindOf(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
