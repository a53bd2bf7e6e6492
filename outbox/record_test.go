package outbox

import (
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// When the term has ended, another relay may have the lease. That messages were published is still written down, but not that they are to
// be tried again later or were set aside: the other relay may have published them meanwhile, or be about to.
func TestVerdictsAfterTheTerm(t *testing.T) {
	for name, c := range map[string]struct {
		over bool
		want []string
	}{
		"during the term": {false, []string{"DELETE 1", "UPDATE 2", "UPDATE 3"}},
		"after the term":  {true, []string{"DELETE 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written := make(map[string]bool) // a verb and the number of a row
				db := &fakeDB{answer: func(s statement) ([][]driver.Value, error) {
					if verb, _, _ := strings.Cut(s.text, " "); verb == "DELETE" || verb == "UPDATE" {
						written[verb+" "+s.args[len(s.args)-2].(string)] = true
					}
					return nil, nil
				}}
				r := newRun(Relay{Client: &scripted{state: rehop.StateOpen}, DB: db.open(t), Dialect: dialect.Postgres}.withDefaults())
				b := newBatch(r, newTerm(time.Now().Add(time.Hour)))
				b.rows = []row{{id: 1}, {id: 2, orderKey: "k"}, {id: 3}, {id: 4}, {id: 5}}
				b.fates = []fate{{verdict: published}, {verdict: retry, err: rehop.ErrRefused, wait: time.Second}, {verdict: aside, err: errors.New("too large")},
					{verdict: left}, {verdict: vanished}}
				if c.over {
					b.term.end()
				}
				if !b.record(t.Context(), []int{0, 1, 2, 3, 4}) {
					t.Error("got false, want all written that is to be")
				}
				if got := slices.Sorted(maps.Keys(written)); !slices.Equal(got, c.want) {
					t.Errorf("got statements %q, want %q", got, c.want)
				}
			})
		})
	}
}

// The term ends while one of several outcomes is written. Of the others only those are written that are right whoever has the lease.
func TestTermEndsBetweenVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var verbs []string
		var b *batch
		db := &fakeDB{answer: func(s statement) ([][]driver.Value, error) {
			if verb, _, _ := strings.Cut(s.text, " "); verb == "DELETE" || verb == "UPDATE" {
				verbs = append(verbs, verb)
				b.term.end()
			}
			return nil, nil
		}}
		r := newRun(Relay{Client: &scripted{state: rehop.StateOpen}, DB: db.open(t), Dialect: dialect.Postgres}.withDefaults())
		b = newBatch(r, newTerm(time.Now().Add(time.Hour)))
		b.rows = []row{{id: 1}, {id: 2}, {id: 3}}
		b.fates = []fate{{verdict: retry, err: rehop.ErrRefused, wait: time.Second}, {verdict: aside, err: errors.New("too large")}, {verdict: published}}
		if b.record(t.Context(), []int{0, 1, 2}) {
			t.Error("got true, want that not all was written")
		}
		if slices.Contains(verbs[1:], "UPDATE") || !slices.Contains(verbs, "DELETE") {
			t.Errorf("got statements %q, want an end of the message that was published, and nothing else after the first", verbs)
		}
	})
}

// Somebody has locked a row whose message was published, and the relay has lost the lease and got it back meanwhile. It still knows that the
// row is to be deleted, whoever had that to do: the batch that has published the message, or the lane after the batch.
func TestLockedRowIsOwedAfterTheLease(t *testing.T) {
	locked := undone{row: sqltext.Row{Number: 1, Nonce: 1}, kind: alike{verdict: published}}
	start := func(t *testing.T) *stage {
		s := newStage(t, dialect.Postgres)
		s.put("k/1")
		s.locked = []int64{1}
		s.run.owed.begin(locked.row)
		return s
	}
	// regain has the relay lose its lease, get it back, and look.
	regain := func(s *stage) {
		s.t.Helper()
		s.run.leases.lose(s.run.leases.term)
		s.run.leases.take(time.Now(), []int{stageShard})
		s.poll()
		s.wantSent("after the lease came back")
	}
	wantOwed := func(s *stage) {
		s.t.Helper()
		if got := s.run.owed.take(); !slices.Equal(got, []undone{locked}) {
			s.t.Errorf("outcomes that are still to be written: got %v, want that of the locked row, once", got)
		}
	}
	for name, finish := range map[string]func(s *stage, l *lane){
		"by the batch": func(s *stage, l *lane) {
			b := newBatch(s.run, s.run.leases.term)
			b.add(l, []row{{id: 1, nonce: 1, state: stateOrdered, shard: stageShard}}, 1, 0)
			b.parts[0].undone, l.busy, s.d.running = []undone{locked}, true, 1
			b.rows = nil
			s.d.done <- b
			regain(s)
		},
		"by the lane": func(s *stage, l *lane) {
			l.undone, l.tidy = []undone{locked}, time.Now().Add(time.Hour)
			regain(s)
		},
		"by a batch that was to write it alone": func(s *stage, l *lane) {
			l.undone = []undone{locked}
			b := newBatch(s.run, s.run.leases.term)
			b.addUndone(l)
			l.busy, s.d.running = true, 1
			s.d.done <- b
			regain(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t)
				l := s.d.lanes[laneIndex(laneOrdered, stageShard)]
				l.under(s.held())
				finish(s, l)
				wantOwed(s)
			})
		})
	}
}
