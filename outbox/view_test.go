package outbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/dialect"
)

// What is published was read in a transaction that has written a barrier afterwards, and was committed: so it comes from the server that
// has the barrier on disk. Another connection may lead to another server, or see more than is on disk.
func TestReadInTheTransactionOfTheBarrier(t *testing.T) {
	for _, speaks := range []dialect.Dialect{dialect.Postgres, dialect.MySQL} {
		t.Run(string(speaks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, speaks)
				s.put("k/1")
				said := s.read()
				if len(said) == 0 {
					t.Fatal("got no statements, want some")
				}
				open, read, written, committed := false, 0, false, false
				for _, one := range said {
					if one.connection != said[0].connection {
						t.Errorf("another connection was asked: %s", one.text)
					}
					switch {
					case one.text == "BEGIN" || one.text == "START TRANSACTION":
						open = true
					case one.text == "COMMIT":
						committed, open = written, false
					case readsMessages(one):
						read++
						if !open || written {
							t.Errorf("read outside of the transaction, or after its barrier: %s", one.text)
						}
					case isBarrier(one):
						written = true
						if !open || read < 2 {
							t.Errorf("a barrier outside of the transaction, or before all was read: %s", one.text)
						}
					}
				}
				if read != 2 || !committed {
					t.Errorf("got %d reads and a barrier that was committed: %v; want 2 and true", read, committed)
				}
			})
		})
	}
}

// SQLite has no transaction for that, but the barrier comes last there too.
func TestBarrierAfterReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, dialect.SQLite)
		s.put("k/1")
		said := s.read()
		if last := said[len(said)-1]; !isBarrier(last) {
			t.Errorf("got last %q, want the barrier", last.text)
		}
	})
}

// read reads all lanes, one of them by itself, and returns what the database was asked.
func (s *stage) read() []statement {
	s.t.Helper()
	now := time.Now()
	s.d.lanes[laneIndex(laneHeld, stageShard)].under(s.held())
	s.d.lanes[laneIndex(laneHeld, stageShard)].apart = now.Add(time.Hour)
	_, held := s.run.leases.current()
	found, _, _, err := s.d.read(s.t.Context(), held, now)
	if err != nil || len(found) != 1 {
		s.t.Fatalf("read: got messages of %d lanes, %v; want one", len(found), err)
	}
	return s.db.transcript()
}

// held is the lease of the stage's shard.
func (s *stage) held() *holding {
	_, held := s.run.leases.current()
	return held[stageShard]
}
