package rabbit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// TestRefusingChannelIsReplaced: a queue that refuses on one channel gets its messages by another one, also while that channel
// works for other queues.
func TestRefusingChannelIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{heartbeat: 200}
		var mu sync.Mutex
		var refusing uint16 // the channel on which one queue refuses
		channels := make(map[uint16]bool)
		b.publish = func(p *fakePeer, channel uint16, tag uint64, _, body []byte) {
			mu.Lock()
			defer mu.Unlock()
			if refusing == 0 {
				refusing = channel
			}
			channels[channel] = true
			if channel == refusing && string(body) == "stale" {
				p.nack(channel, tag, 0)
			} else {
				p.ack(channel, tag, 0)
			}
		}
		link, p, _ := start(t, b)
		defer stop(link, p)
		began := time.Now()
		for refused := 0; ; refused++ {
			if err := p.Publish(t.Context(), "", "good", &Publishing{MessageId: NewID(), Body: []byte("good")}, false); err != nil {
				t.Fatal(err)
			}
			err := p.Publish(t.Context(), "", "stale", &Publishing{MessageId: NewID(), Body: []byte("stale")}, false)
			if err == nil {
				t.Logf("taken after %d refusals and %v", refused, time.Since(began))
				break
			}
			if !errors.Is(err, ErrNacked) {
				t.Fatal(err)
			}
			if time.Since(began) > time.Minute {
				t.Fatal("refused for a minute on a channel that is not replaced")
			}
			time.Sleep(3 * time.Second)
		}
		if len(channels) != 2 {
			t.Errorf("messages came on %d channels, want 2", len(channels))
		}
	})
}
