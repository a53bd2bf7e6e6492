package triage

import (
	"testing"
	"testing/synctest"
	"time"
)

// Equal numbers do not prove that the index is equal to a queue: a queue with messages is swept after some time, and one that takes long to read seldom.
func TestEqualNumbersAreOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{config: ServiceConfig{SweepEvery: time.Hour}, checked: make(map[string]*checkedQueue)}
		began := time.Now()
		index := Queue{Name: "orders.failed", Failed: 5, Swept: began}
		due := func(what string, depth int, want bool) {
			t.Helper()
			if got := s.isDue(index, depth, 0); got != want {
				t.Errorf("%s: due is %v, want %v", what, got, want)
			}
		}
		due("swept now", 5, false)
		time.Sleep(59 * time.Minute)
		due("before an hour", 5, false)
		time.Sleep(time.Minute)
		due("after an hour", 5, true)
		index.Failed = 0
		due("empty", 0, false)
		index.Failed = 5

		c := s.checked[index.Name]
		swept := func(took time.Duration, err bool) {
			if c.swept, c.took = time.Now(), took; !err {
				c.equal = time.Now()
			}
		}
		swept(time.Second, true) // somebody else reads the queue
		due("after a sweep that failed", 5, false)
		time.Sleep(restFactor * time.Second)
		due("it is tried again", 5, true)
		swept(time.Second, false)
		index.Swept = time.Now().AddDate(-1, 0, 0) // by a clock that is wrong
		time.Sleep(59 * time.Minute)
		due("the clock of the database is behind", 5, false)
		time.Sleep(time.Minute)
		due("the clock of the database is behind, after an hour", 5, true)
		index.Swept = time.Now().AddDate(1, 0, 0)
		due("the clock of the database is ahead, after an hour", 5, true)
		swept(time.Hour, false)
		time.Sleep(2 * time.Hour)
		due("a sweep takes an hour", 5, false)
		time.Sleep((restFactor - 2) * time.Hour)
		due("a sweep takes an hour, long after it", 5, true)
	})
}
