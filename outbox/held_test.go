package outbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// While a message of a key is held back, the database passes over the others of the key. A relay on PostgreSQL, which does not look at
// places where nothing can come any more, must not take theirs for such: when the key is free again, a message that is committed then would
// overtake them.
func TestHeldKeyIsNotOvertaken(t *testing.T) {
	for _, c := range []struct {
		name string
		// hold has message 1 of key k refused, message 2 of k committed and passed over, and message 3 of another key published.
		hold func(s *stage)
	}{
		{"the next is committed after the refusal", func(s *stage) {
			s.put("k/1")
			s.poll()
			s.put("k/2", "other/3")
			s.poll()
			s.wantSent("while the key is held", "1", "3")
		}},
		{"the next has its number before the refusal", func(s *stage) {
			s.put("k/1", "other/3") // the transaction of message 2 is under way
			s.poll()
			s.put("k/2")
			s.poll()
			s.wantSent("while the key is held", "1", "3")
		}},
		{"others are published all the time", func(s *stage) {
			s.put("k/1", "other/3")
			s.poll()
			s.put("k/2")
			for _, m := range []string{"other/4", "other/5", "other/6"} {
				time.Sleep(2 * markEvery)
				s.put(m)
				s.poll()
			}
			s.wantSent("while the key is held", "1", "3", "4", "5", "6")
		}},
		{"the refusal is written late, because the row is locked", func(s *stage) {
			s.locked = []int64{1}
			s.put("k/1")
			s.poll()
			s.put("k/2", "other/3")
			s.poll()
			s.wantSent("while the row is locked", "1", "3")
			s.locked = nil
			s.d.pauseAll(time.Now().Add(tidyEvery + time.Millisecond)) // it is written before the next look
			time.Sleep(tidyEvery)
			s.poll()
			time.Sleep(time.Millisecond)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, dialect.Postgres)
				s.client.answers["1"] = rehop.ErrRefused
				c.hold(s)
				for range 3 { // nothing is found, and nothing may be learned from that
					s.poll()
				}
				s.wantSent("still")
				delete(s.client.answers, "1")
				time.Sleep(s.run.RetryMin)
				s.poll()
				s.wantSent("when it is due", "1")
				s.put("k/7")
				s.poll()
				s.wantSent("when the key is free", "2", "7")
			})
		})
	}
}

// A message that was committed late is found before the place from which the relay looks next. If it is left there, the relay looks from
// the beginning again: the next of its key would overtake it.
func TestLateMessageThatIsLeftIsNotOvertaken(t *testing.T) {
	for _, c := range []struct {
		name string
		late func(s *stage) // has messages of k committed that are before number 9, and leaves some
		want []string       // of them
	}{
		{"the broker went away", func(s *stage) {
			s.client.answers["1"] = rehop.ErrClosed
			s.put("k/1")
			s.poll()
			s.wantSent("at first", "1")
			delete(s.client.answers, "1")
			time.Sleep(time.Second) // during which no lane is looked at
		}, []string{"1"}},
		{"more than are read at once", func(s *stage) {
			s.run.BatchSize = 2
			s.put("k/1", "k/2", "k/3")
			s.poll()
			s.wantSent("at first", "1", "2")
			s.run.BatchSize = 10
		}, []string{"3"}},
		{"more than there is room for", func(s *stage) {
			s.run.MaxBytes = 2 * batchShare
			s.put("k/1", "k/2", "k/3")
			s.poll()
			s.wantSent("at first", "1", "2")
		}, []string{"3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, dialect.Postgres)
				s.put("other/9")
				s.poll()
				s.wantSent("before", "9")
				c.late(s)
				s.put("k/10")
				s.poll()
				s.wantSent("afterwards", append(c.want, "10")...)
			})
		})
	}
}

// What a relay has learned about one server does not hold for the next, to which a failover leads it, and which may know less.
func TestLanesForgetServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *stage)
	}{
		{"another server answers", func(s *stage) { s.server++ }},
		{"after an error", func(s *stage) {
			s.fails = "ORDER BY due"
			s.poll()
			s.fails = ""
		}},
		{"after a commit that failed", func(s *stage) {
			s.put("other/4")
			s.fails = "COMMIT"
			s.poll()
			s.fails = ""
			s.wantSent("by a look that was not committed")
			s.rows = nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, dialect.Postgres)
				s.put("other/3")
				s.poll()
				s.wantSent("at first", "3")
				s.poll()
				s.poll()
				if s.from != 2 {
					t.Fatalf("on the first server: got a look from %d on, want from 2: before that nothing can come", s.from)
				}
				c.change(s)
				s.put("k/1", "k/5")
				s.poll()
				s.wantSent("afterwards", "1", "5")
			})
		})
	}
}
