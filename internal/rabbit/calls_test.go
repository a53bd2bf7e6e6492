package rabbit

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// What a session asks the broker for is asked one by one, and nothing after its channel was closed: answers would go to the wrong one, and
// the broker would end the connection of all others.
func TestCallsOfASessionComeOneByOne(t *testing.T) {
	const qos, cancel, closing = "qos", "cancel", "close"
	names := map[[2]uint16]string{{60, 10}: qos, {60, 30}: cancel, {20, 40}: closing}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		holding := false
		release := make(chan struct{})
		b := &fakeBroker{heartbeat: 200}
		b.method = func(p *fakePeer, channel, class, method uint16, _ []byte) bool {
			name := names[[2]uint16{class, method}]
			mu.Lock()
			defer mu.Unlock()
			if name == "" || !holding {
				return false
			}
			asked = append(asked, name)
			go func() {
				<-release
				switch name {
				case qos:
					p.send(channel, 60, 11)
				case cancel:
					p.send(channel, 60, 31, shortstr("tag"))
				case closing:
					p.send(channel, 20, 41)
				}
			}()
			return true
		}
		link, p, _ := start(t, b)
		s, d := openWithDelivery(t, link, b)
		// expect lets the broker answer once, and checks what it was asked for since.
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			got := asked
			asked = nil
			mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("asked for %s: got %v, want %v", when, got, want)
			}
			for range got {
				release <- struct{}{}
			}
		}
		mu.Lock()
		holding = true
		mu.Unlock()

		go s.Sync()
		synctest.Wait()
		go s.Cancel()
		go s.Next()
		expect("while the first answer is awaited", qos)
		expect("next", cancel)
		synctest.Wait()
		if s.HasEnded() {
			t.Error("the session has ended with a delivery in hand")
		}
		go s.Sync()
		synctest.Wait()
		d.Ack()
		expect("while a message is settled", qos)
		expect("when all are settled", closing)
		s.Sync()
		expect("after the end")
		if !s.HasEnded() {
			t.Error("the session has not ended")
		}
		stop(link, p)
	})
}
