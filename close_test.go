package rehop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// Close reports what is not confirmed, and does not wait for it forever.
func TestCloseSaysWhatIsNotConfirmed(t *testing.T) {
	for name, fail := range map[string]func(*rehoptest.Broker){
		"no confirm": (*rehoptest.Broker).HoldConfirms,
		"an alarm":   func(b *rehoptest.Broker) { b.HoldConfirms(); b.Block() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client, err := rehop.Open(t.Context(), b.Config())
				if err != nil {
					t.Fatal(err)
				}
				subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
				b.HoldConfirms()
				published := make(chan error, 1)
				go func() { published <- client.Publish(context.Background(), rehop.Message{Key: "q"}) }()
				b.AwaitEmpty("q") // it was handled, and the publisher does not know
				fail(b)
				began := time.Now()
				err = client.Close(context.Background())
				if !errors.Is(err, rehop.ErrUnknown) || !strings.Contains(err.Error(), "unconfirmed messages: 1;") {
					t.Errorf("close: got %v, want ErrUnknown about one message", err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("close took %v, want at most 30 s and a little", took)
				}
				if err := <-published; !errors.Is(err, rehop.ErrUnknown) {
					t.Errorf("publish: got %v, want ErrUnknown", err)
				}
				b.ReleaseConfirms()
				b.Unblock()
			})
		})
	}
}
