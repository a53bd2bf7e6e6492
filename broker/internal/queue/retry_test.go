package queue

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryDelay(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		retry  Retry
		before uint16 // failures
		failed bool
		want   time.Duration
	}{
		{"none", Retry{}, 0, true, 0},
		{"the first failure", Retry{RetryAll, 5 * ms, 50 * ms}, 0, true, 5 * ms},
		{"the third failure", Retry{RetryAll, 5 * ms, 50 * ms}, 2, true, 15 * ms},
		{"at most", Retry{RetryAll, 5 * ms, 12 * ms}, 2, true, 12 * ms},
		{"just at most", Retry{RetryAll, 5 * ms, 10 * ms}, 1, true, 10 * ms},
		{"at most less than at least", Retry{RetryAll, 5 * ms, 2 * ms}, 0, true, 2 * ms},
		{"no failure", Retry{RetryAll, 5 * ms, 50 * ms}, 0, false, 5 * ms},
		{"no failure after two", Retry{RetryAll, 5 * ms, 50 * ms}, 2, false, 10 * ms},
		{"failures alone, one", Retry{RetryFailed, 5 * ms, 50 * ms}, 0, true, 5 * ms},
		{"failures alone, none", Retry{RetryFailed, 5 * ms, 50 * ms}, 2, false, 0},
		{"others alone, one", Retry{RetryReturned, 5 * ms, 50 * ms}, 2, false, 10 * ms},
		{"others alone, none", Retry{RetryReturned, 5 * ms, 50 * ms}, 0, true, 0},
		{"without overflow", Retry{RetryAll, math.MaxInt64 / 2, math.MaxInt64}, math.MaxUint16, true, math.MaxInt64},
	} {
		if got := c.retry.Delay(Item{Failures: c.before}, c.failed); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// The queue is woken when the delay of a message is over, and delivers it to a waiting consumer.
func TestAlarmOfDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Unlimited()
		s.Retry = Retry{RetryAll, 2 * time.Second, time.Hour}
		c := newClockedQuorum(t, s)
		c.push("a", "b")
		a, _, _ := c.get(false)
		b, _, _ := c.get(false)
		c.after(c.q.Return([]Item{a, b}, true, true))
		c.wantReady("")
		if st := c.q.Status(); st.Delayed != 2 || st.NextReady != 2*time.Second || st.LastReady != 2*time.Second {
			t.Errorf("got %d delayed, ready after %s and %s, want 2 after 2s", st.Delayed, st.NextReady, st.LastReady)
		}
		c.wait(time.Second)
		c.wait(time.Hour, "2 []")
		c.wantReady("a b")
		again, _, _ := c.get(false)
		c.after(c.q.Return([]Item{again}, true, true))
		if st := c.q.Status(); st.Delayed != 1 || st.NextReady != 4*time.Second {
			t.Errorf("got %d delayed, ready after %s, want 1 after 4s", st.Delayed, st.NextReady)
		}
		c.wantReady("b")
	})
}

// A restored message waits for the rest of its delay. Delete returns the number of ready messages.
func TestRestoreDelayed(t *testing.T) {
	s := newStage(t, plan{kind: Quorum})
	s.q.Restore(s.message(parcel{name: "a"}), -1, 0, Returns{Count: 1, Failures: 1, Delay: time.Minute}, true)
	s.q.Restore(s.message(parcel{name: "b"}), -1, 0, Returns{}, false)
	s.after(s.q.Pump())
	s.wantReady("b")
	s.now += time.Minute - 1
	s.after(s.q.Pump())
	s.wantReady("b")
	if messages, _, ok := s.q.Delete(false, false); !ok || messages != 1 {
		t.Errorf("delete: got %d messages, %t, want the one that was ready", messages, ok)
	}
	if used := s.budget.Used(); used != 0 {
		t.Errorf("got %d bytes in memory after the queue was deleted, want none", used)
	}
}
