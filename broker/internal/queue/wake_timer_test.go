package queue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// clocked runs a queue on the clock of a synctest bubble. It records events with the seconds since the
// start.
type clocked struct {
	*stage
	began time.Time
	mu    sync.Mutex
	woken []string
}

func newClocked(t *testing.T, s Settings) *clocked { return newClockedOf(t, Classic, Rules{}, s) }

// newClockedQuorum returns a quorum queue of RabbitMQ 4.3.
func newClockedQuorum(t *testing.T, s Settings) *clocked {
	return newClockedOf(t, Quorum, Rules{CountsFailures: true, LimitsFailures: true, ReturnsFirst: true}, s)
}

func newClockedOf(t *testing.T, kind Type, rules Rules, s Settings) *clocked {
	c := &clocked{stage: &stage{t: t, names: make(map[*Message]string), budget: &Budget{}}, began: time.Now()}
	c.q = New(Config{ID: 1, Type: kind, Rules: rules, Clock: c.clock, Budget: c.budget, Wake: c.wake}, s)
	c.q.Touch()
	t.Cleanup(c.q.Stop)
	return c
}

func (c *clocked) clock() time.Duration { return time.Since(c.began) + 1 }

func (c *clocked) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	fx, expired := c.q.Tick()
	c.after(fx)
	what := fmt.Sprint(time.Since(c.began).Seconds(), " ", c.takeAllDead())
	if expired {
		what += " expired"
		c.q.Delete(false, false)
	}
	c.woken = append(c.woken, what)
}

// wait advances the time, and compares when the queue was woken and what was dead-lettered.
func (c *clocked) wait(d time.Duration, want ...string) {
	c.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, want := fmt.Sprintf("%q", c.woken), fmt.Sprintf("%q", want); got != want {
		c.t.Errorf("woken: got %s, want %s", got, want)
	}
	c.woken = nil
}

func TestAlarmOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t, Unlimited())
		c.send(parcel{name: "a", ttl: 2 * time.Second})
		c.send(parcel{name: "b", ttl: time.Second})
		c.send(parcel{name: "c", ttl: 5 * time.Second})
		c.push("d")
		c.wait(time.Hour, "2 [a expired b expired]", "5 [c expired]")
		c.wantReady("d")
	})
}

func TestAlarmFollowsTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t, Unlimited())
		c.send(parcel{name: "a", ttl: 2 * time.Second})
		c.send(parcel{name: "b", ttl: 9 * time.Second})
		it, _, _ := c.get(false) // now b is the head
		c.wait(3 * time.Second)
		c.after(c.q.Return([]Item{it}, true, true)) // expired, so it does not return
		if got := fmt.Sprint(c.takeAllDead()); got != "[a expired]" {
			t.Errorf("dead letters: got %s, want [a expired]", got)
		}
		c.wait(time.Hour, "9 [b expired]")
	})
}

func TestAlarmAfterPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t, Unlimited())
		c.send(parcel{name: "a", ttl: time.Second})
		c.q.Purge()
		c.wait(time.Hour)
		c.send(parcel{name: "b", ttl: time.Second})
		c.wait(time.Hour, "3601 [b expired]")
	})
}

func TestAlarmOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Unlimited()
		s.Expires = 10 * time.Second
		c := newClocked(t, s)
		c.wait(6 * time.Second)
		c.get(true) // counts as a use
		c.wait(6 * time.Second)
		k := c.join("one", 1, nil)
		c.wait(time.Hour) // with a consumer it does not expire
		c.push("a")       // does not count as a use
		c.q.Unsubscribe(&k.Consumer)
		c.wait(5 * time.Second)
		c.q.Touch()
		c.wait(5 * time.Second)
		c.wait(time.Hour, "3627 [] expired")
	})
}

func TestAlarmEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t, Unlimited())
		c.send(parcel{name: "a", ttl: time.Second})
		c.q.Stop()
		c.wait(time.Hour)
	})
}

// TestAlarmDoesNotSpin: while dead letters are taken, those that are still to come do not wake the queue
// again and again.
func TestAlarmDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, plan{})
		var woken atomic.Int32
		began := time.Now()
		s.q = New(Config{Type: Classic, Clock: func() time.Duration { return time.Since(began) + 1 }, Budget: s.budget, Wake: func() {
			if woken.Add(1) < 100 {
				s.q.Tick()
			}
		}}, Unlimited())
		t.Cleanup(func() { s.q.Stop() })
		for range 2 * deathsAtOnce {
			s.send(parcel{ttl: time.Second})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := woken.Load(); got != 1 {
			t.Errorf("woken: got %d times, want once", got)
		}
		if got, want := len(s.takeAllDead()), 2*deathsAtOnce; got != want {
			t.Errorf("dead letters: got %d, want %d", got, want)
		}
	})
}
