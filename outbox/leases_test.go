package outbox

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// releases is a database that keeps which leases were given back, and asks the test when one is.
type releases struct {
	fakeDB
	lists []string // of shards
	asked func(list string)
	owned [][]driver.Value // the shards that the relay has by the table
}

func newReleases() *releases {
	r := &releases{asked: func(string) {}}
	r.answer = func(s statement) ([][]driver.Value, error) {
		if strings.Contains(s.text, "owner = '', term = term + 1") {
			list := s.args[0].(string)
			r.asked(list)
			r.lists = append(r.lists, list)
		}
		if strings.HasPrefix(s.text, "SELECT shard FROM") {
			return r.owned, nil
		}
		return nil, nil
	}
	return r
}

// take returns the leases of a relay that has gained some, and its term.
func (r *releases) take(t *testing.T, shards ...int) (*leases, *term) {
	t.Helper()
	run := newRun(Relay{Client: &scripted{state: rehop.StateOpen}, DB: r.open(t), Dialect: dialect.Postgres}.withDefaults())
	run.leases.take(time.Now(), shards)
	for _, shard := range shards {
		r.owned = append(r.owned, []driver.Value{int64(shard)})
	}
	return run.leases, run.leases.term
}

// want checks which leases were given back.
func (r *releases) want(t *testing.T, when string, lists ...string) {
	t.Helper()
	if !slices.Equal(r.lists, lists) {
		t.Errorf("%s: got these leases given back: %q, want %q", when, r.lists, lists)
	}
}

func mustGiveBack(t *testing.T, l *leases) {
	t.Helper()
	if err := l.giveBack(t.Context()); err != nil {
		t.Fatalf("give leases back: %v", err)
	}
}

// A lease is given back only when none of its messages is under way: another relay would publish them once more, and out of order.
func TestGiveBackWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newReleases()
		l, term := db.take(t, 4, 7)
		for range 2 {
			if !l.begin(term, []int{4}) {
				t.Fatal("nothing can begin under a lease that is held")
			}
		}
		l.shed(0)
		mustGiveBack(t, l)
		db.want(t, "while messages of 4 are under way", "7")
		if l.begin(term, []int{4}) {
			t.Error("something has begun under a lease that is to be given back")
		}
		if _, free := l.current(); len(free) > 0 {
			t.Errorf("got %d leases under which work may begin, want none", len(free))
		}
		l.end(term, []int{4})
		mustGiveBack(t, l)
		db.want(t, "while one of two batches is under way", "7")
		if len(l.ask) > 0 {
			t.Error("the leases are looked after although nothing can be given back yet")
		}
		l.end(term, []int{4})
		if len(l.ask) == 0 {
			t.Error("the end of the last batch does not have the leases looked after: another relay waits for one")
		}
		db.asked = func(string) {
			if l.holds(4) || l.begin(term, []int{4}) {
				t.Error("something can begin while the lease is given back")
			}
		}
		mustGiveBack(t, l)
		db.want(t, "at last", "7", "4")
	})
}

// A relay that resigns ends what is under way before the database knows: from then on another relay may publish.
func TestResignEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newReleases()
		l, old := db.take(t, 4)
		l.begin(old, []int{4})
		within, done := old.within(context.Background(), time.Hour)
		defer done()
		db.asked = func(string) {
			if !old.over() || within.Err() == nil || l.holds(4) || l.begin(old, []int{4}) {
				t.Error("the lease is given back while its messages can still be sent")
			}
		}
		if err := l.resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		db.want(t, "after it has resigned", "4")
		<-within.Done() // the publisher is notified

		// The relay gets the lease back. The end of the old batch does not count for a new one.
		l.take(time.Now(), []int{4})
		if l.begin(old, []int{4}) {
			t.Error("something has begun in a term that has ended")
		}
		l.begin(l.term, []int{4})
		l.end(old, []int{4})
		l.shed(0)
		mustGiveBack(t, l)
		db.want(t, "while a message is under way in the next term", "4")
	})
}

// Leases that nobody has renewed end by the clock, and with them what is under way: also before any timer runs, as in a process that was stopped.
func TestLostLeasesEndWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, term := newReleases().take(t, 4)
		l.begin(term, []int{4})
		end := *term.until.Load()
		term.extend(time.Now())
		if now, _ := l.current(); now != nil || l.begin(term, []int{4}) {
			t.Error("something can begin although the leases have ended by the clock")
		}
		term.extend(end)
		time.Sleep(time.Until(end))
		synctest.Wait()
		if l.holds(4) {
			t.Error("a lease is held although it has ended")
		}
		select {
		case <-term.ended:
		default:
			t.Error("what is under way is not cut short although the lease has ended")
		}
	})
}
