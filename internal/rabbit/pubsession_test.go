package rabbit

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A channel that is replaced is closed only after whoever is about to send on it has sent: the broker would answer a
// frame on a closed channel by closing the connection.
func TestRetiredChannelWaitsForSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, what)
		}
		seen := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(got)
		}
		b := &fakeBroker{heartbeat: 200}
		b.method = func(_ *fakePeer, _, class, method uint16, _ []byte) bool {
			switch [2]uint16{class, method} {
			case [2]uint16{20, 40}:
				note("channel.close")
			case [2]uint16{60, 40}:
				note("basic.publish")
			}
			return false
		}
		link, p, _ := start(t, b)
		defer stop(link, p)
		s, err := openPubSession(context.Background(), link, 10, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.claim(context.Background(), "m", "", false); err != nil {
			t.Fatal(err)
		}
		s.retire()
		var closing sync.WaitGroup
		closing.Go(s.close)
		if got := seen(); len(got) != 0 {
			t.Errorf("while somebody is about to send: got %v, want nothing", got)
		}
		if err := s.ch.PublishWithContext(context.Background(), "", "k", true, false, amqp.Publishing{MessageId: "m"}); err != nil {
			t.Fatal(err)
		}
		s.sent()
		closing.Wait()
		if got, want := seen(), []string{"basic.publish", "channel.close"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
