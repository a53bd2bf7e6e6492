package rabbit

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func (s *throttle) want(t *testing.T, paused bool, d destination, why string) {
	t.Helper()
	if got := s.pause(d); (got > 0) != paused || got > throttleMax {
		t.Errorf("%s: got a pause of %v", why, got)
	}
}

func (s *throttle) refuse(d destination, times int) {
	for range times {
		s.refused(d)
	}
}

func TestThrottle(t *testing.T) {
	fan, key, other := destination{"fan", ""}, destination{"fan", "k"}, destination{"other", "k"}
	t.Run("only where it is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s throttle
			s.refuse(fan, throttleAfter-1)
			s.want(t, false, fan, "before the limit")
			s.refuse(fan, 1)
			s.want(t, true, fan, "refused in a row")
			s.want(t, false, key, "another key of the exchange")
			s.accepted(key)
			s.want(t, true, fan, "taken with another key")
			s.accepted(fan)
			s.want(t, false, fan, "taken")
			if s.some.Load() {
				t.Error("nothing refuses, and every message is still looked up")
			}
		})
	})
	t.Run("old refusals do not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s throttle
			s.refuse(fan, 2*throttleAfter)
			time.Sleep(throttleEnds)
			s.want(t, false, fan, "refused long ago")
			s.refuse(fan, 1)
			s.want(t, false, fan, "refused once since")
			time.Sleep(throttleEnds)
			s.accepted(other)
			if s.some.Load() || len(s.known) > 0 {
				t.Error("nothing counts, and every message is still looked up")
			}
		})
	})
	t.Run("memory is bounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s throttle
			for i := range 20 * maxStreaks {
				s.refuse(destination{fmt.Sprint("x ", i), fmt.Sprint("key ", i)}, 1)
			}
			if n := len(s.known); n > maxStreaks {
				t.Errorf("got %d destinations, want %d at most", n, maxStreaks)
			}
			s.want(t, true, destination{"x", "new"}, "one of many that are refused")
			s.accepted(destination{"x", "new"})
			s.want(t, false, destination{"x", "new"}, "taken")
			paused := 0
			for i := range 100 {
				if s.pause(destination{"x", fmt.Sprint("other ", i)}) > 0 {
					paused++
				}
			}
			if paused < 90 {
				t.Errorf("of 100 others that are refused %d still pause when one is taken, want nearly all", paused)
			}
		})
	})
}

// In a batch, messages to a full queue hold up none that go elsewhere.
func TestThrottleInBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, _, body []byte) {
			if string(body) == "full" {
				p.nack(channel, tag, 0)
			} else {
				p.ack(channel, tag, 0)
			}
		}}
		link, p, _ := start(t, b)
		for round := range 4 {
			items := make([]Item, 200)
			for i := range items {
				key := []string{"full", "empty"}[i%2]
				items[i] = Item{Key: key, Message: &Publishing{MessageId: fmt.Sprint(round, " ", i), Body: []byte(key)}}
			}
			began := time.Now()
			var mu sync.Mutex
			var last time.Duration // until the last that goes where there is room
			p.PublishEach(within(t, time.Minute), items, true, plainly, func(i int, err error) {
				mu.Lock()
				defer mu.Unlock()
				if items[i].Key == "empty" {
					last = max(last, time.Since(began))
				}
				if refused := errors.Is(err, ErrRefused); refused != (items[i].Key == "full") {
					t.Errorf("%s: got %v", items[i].Key, err)
				}
			})
			all := time.Since(began)
			if last > 0 || all > throttleMax || round > 0 && all == 0 {
				t.Errorf("round %d: those with room took %v and all %v, want no time, and one pause but in the first", round, last, all)
			}
		}
		stop(link, p)
	})
}

// All messages of a batch that go to one destination are sent at once, or all wait: else those that wait would get behind the others.
func TestThrottleDividesNoDestination(t *testing.T) {
	var s throttle
	d := destination{"x", "k"}
	items, some := make([]Item, 1000), make([]int, 1000)
	for i := range items {
		items[i], some[i] = Item{Exchange: d.exchange, Key: d.key}, i
	}
	ctx := within(t, time.Minute)
	var others sync.WaitGroup
	defer others.Wait()
	stop := make(chan struct{})
	defer close(stop)
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.refuse(d, throttleAfter)
				s.accepted(d)
			}
		}
	})
	for seen := map[bool]int{}; seen[true] < 100 || seen[false] < 100; {
		if ctx.Err() != nil {
			t.Fatalf("inconclusive: some waited %d times, and none %d times", seen[true], seen[false])
		}
		atOnce, later, pause := s.split(items, some)
		if len(atOnce) > 0 && len(later) > 0 || (len(later) > 0) != (pause > 0) {
			t.Fatalf("%d are sent at once and %d after %v, want all together", len(atOnce), len(later), pause)
		}
		seen[len(later) > 0]++
	}
}

// Messages that are started after Sent come after those of the batch before, also if that was slowed down.
func TestSentAfterThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		var got []string // of key "k"
		b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, _, body []byte) {
			switch {
			case string(body) == "other":
				p.ack(channel, tag, 0)
			case full:
				p.nack(channel, tag, 0)
			default:
				got = append(got, string(body))
				p.ack(channel, tag, 0)
			}
		}}
		link, p, _ := start(t, b)
		batch := func(name string, n int) []Item {
			items := []Item{{Key: "other", Message: &Publishing{MessageId: name, Body: []byte("other")}}}
			for i := range n {
				body := fmt.Sprint(name, i)
				items = append(items, Item{Key: "k", Message: &Publishing{MessageId: body, Body: []byte(body)}})
			}
			return items
		}
		ctx := within(t, time.Minute)
		p.PublishBatch(ctx, batch("refused", 2*throttleAfter), true)
		full = false
		first := p.StartBatch(ctx, batch("a", 3), true)
		first.Sent()
		second := p.StartBatch(ctx, batch("b", 3), true)
		for _, s := range []*Sending{first, second} {
			if err := errors.Join(s.Outcomes()...); err != nil {
				t.Error(err)
			}
		}
		if want := []string{"a0", "a1", "a2", "b0", "b1", "b2"}; !slices.Equal(got, want) {
			t.Errorf("the broker got %q, want %q", got, want)
		}
		stop(link, p)
	})
}
