package rehop_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/rehoptest"
)

// A channel on which everything is refused is replaced: the broker may have lost one of its messages, and then it refuses
// all that follow there, and on no other channel.
func TestRefusingChannelIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server *broker.Server
		b := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { server = s }))
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Exchange: "x", Handler: newLogbook(nil)})
		publish(t, b.Client, rehop.Message{Exchange: "x", Key: "k"})
		control, err := brokertest.Open(server)
		if err != nil {
			t.Fatal(err)
		}
		newest := func() uint16 { return control.LastConfirmChannel(t.Context()) }
		before := newest()
		b.Refuse(func(exchange, _ string) bool { return exchange == "x" })
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "x", Key: "k"}); !errors.Is(err, rehop.ErrRefused) {
				t.Fatalf("got %v, want ErrRefused", err)
			}
		}
		if after := newest(); after <= before {
			t.Errorf("after ten seconds of refusals the newest channel is %d, as before (%d)", after, before)
		}
		b.Refuse(nil)
		publish(t, b.Client, rehop.Message{Exchange: "x", Key: "k"})
	})
}
