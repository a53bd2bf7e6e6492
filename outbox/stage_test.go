package outbox

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// stage is a dispatcher that works step by step: on a publisher that answers by message id, and on a fake database whose outbox has the
// messages of one shard.
type stage struct {
	t      *testing.T
	db     *fakeDB
	client *scripted
	run    *run
	d      *dispatcher

	rows   []row   // those that are committed
	server int64   // when the server was started
	number int64   // of the last transaction; all before have ended
	locked []int64 // rows that somebody has locked
	fails  string  // what a statement has in it that fails
	from   int64   // where the last look into the messages in an order began
}

// stageShard is the one whose lease the relay has.
const stageShard = 3

func newStage(t *testing.T, speaks dialect.Dialect) *stage {
	t.Helper()
	s := &stage{t: t, db: &fakeDB{}, client: &scripted{state: rehop.StateOpen, answers: make(map[string]error)}, server: 1}
	s.db.answer = s.answer
	s.run = newRun(Relay{Client: s.client, DB: s.db.open(t), Dialect: speaks, Lease: time.Hour}.withDefaults())
	s.run.leases.take(time.Now(), []int{stageShard})
	s.d = &dispatcher{run: s.run, lanes: newLanes()}
	s.d.reader, s.d.done = newReader(s.run, s.d.lanes), make(chan *batch, len(s.d.lanes))
	return s
}

// put commits messages, given as "key/number".
func (s *stage) put(messages ...string) {
	s.t.Helper()
	for _, m := range messages {
		key, number, _ := strings.Cut(m, "/")
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.rows = append(s.rows, row{id: id, nonce: id, state: stateOrdered, shard: stageShard, messageID: number, orderKey: key})
	}
}

// poll has the dispatcher look once, and waits for what it has begun.
func (s *stage) poll() {
	s.t.Helper()
	if _, err := s.d.poll(s.t.Context(), s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for s.d.running > 0 {
		s.d.finish(<-s.d.done)
	}
}

// sent are the messages that were handed to the publisher since the last call, in their order.
func (s *stage) sent() (ids []string) {
	for _, wave := range s.client.waves {
		ids = append(ids, wave...)
	}
	s.client.waves = nil
	return ids
}

// wantSent checks what was handed to the publisher since the last check.
func (s *stage) wantSent(when string, ids ...string) {
	s.t.Helper()
	if got := s.sent(); !slices.Equal(got, ids) {
		s.t.Errorf("%s: sent %v, want %v", when, got, ids)
	}
}

// answer is the database's.
func (s *stage) answer(q statement) ([][]driver.Value, error) {
	if s.fails != "" && strings.Contains(q.text, s.fails) {
		return nil, fmt.Errorf("the server fails on purpose: %s", s.fails)
	}
	switch {
	case isSteady(s.run.sql, q):
		s.number += 10
		return [][]driver.Value{{s.number, s.server, ""}}, nil
	case isBarrier(q) && strings.HasPrefix(q.text, "SELECT"):
		return [][]driver.Value{{int64(1), s.number + 1, int64(1)}}, nil
	case q.text == "PRAGMA synchronous":
		return [][]driver.Value{{int64(2)}}, nil
	case readsMessages(q):
		for i, l := range s.d.lanes {
			if l.shard == stageShard && l.kind == laneOrdered && len(q.args) > 2 {
				s.from = q.args[2*i].(int64)
			}
		}
		return find(s.run.sql, s.d.lanes, s.rows, q), nil
	case strings.HasPrefix(q.text, "SELECT line.id"):
		return s.there(q, strings.HasSuffix(q.text, "SKIP LOCKED")), nil
	case s.isLocked(q):
		return nil, errors.New("canceling statement due to lock timeout (SQLSTATE 55P03)")
	case strings.HasPrefix(q.text, "DELETE"):
		s.rows = slices.DeleteFunc(s.rows, func(r row) bool { return isAmong(&r, q) })
	case strings.HasPrefix(q.text, "UPDATE") && strings.Contains(q.text, "due = "):
		for i := range s.rows {
			if isAmong(&s.rows[i], q) {
				s.rows[i].due = time.Now().Add(s.run.RetryMin).UnixMicro()
			}
		}
	}
	return nil, nil
}

// largeKey is the key of messages whose contents are read separately.
const largeKey = "large"

// isSteady reports whether a statement is the first of a transaction.
func isSteady(text sqltext.SQL, q statement) bool {
	return text.Steady() != "" && strings.HasPrefix(q.text, text.Steady())
}

// readsMessages reports whether a statement reads messages.
func readsMessages(q statement) bool {
	return strings.Contains(q.text, "FROM rehop_outbox") && strings.Contains(q.text, "ORDER BY due")
}

// isBarrier reports whether a statement compares leases or writes the barrier.
func isBarrier(q statement) bool {
	return strings.HasPrefix(q.text, "SELECT COUNT(*)") && strings.Contains(q.text, "outbox_lease") || strings.Contains(q.text, "SET barrier")
}

// isAmong reports whether a statement for PostgreSQL is about a row: the last arguments are numbers and nonces.
func isAmong(r *row, q statement) bool {
	return slices.Contains(strings.Split(q.args[len(q.args)-2].(string), ","), fmt.Sprint(r.id))
}

// isLocked reports whether a statement changes a row that somebody has locked.
func (s *stage) isLocked(q statement) bool {
	return (strings.HasPrefix(q.text, "UPDATE rehop_outbox AS") || strings.HasPrefix(q.text, "DELETE")) &&
		slices.ContainsFunc(s.rows, func(r row) bool { return slices.Contains(s.locked, r.id) && isAmong(&r, q) })
}

// there are the rows that a statement names and that exist, or those of them that nobody has locked.
func (s *stage) there(q statement, free bool) (found [][]driver.Value) {
	for _, r := range s.rows {
		if isAmong(&r, q) && !(free && slices.Contains(s.locked, r.id)) {
			found = append(found, []driver.Value{r.id, r.nonce})
		}
	}
	return found
}

// find reads lanes as a database would: one, or all of them with two arguments for each.
func find(text sqltext.SQL, lanes []*lane, rows []row, q statement) (found [][]driver.Value) {
	for i, l := range lanes {
		args := q.args
		if len(args) > 2 {
			args = args[2*i:]
		} else if !strings.Contains(q.text, fmt.Sprintf("state = %d AND shard = %d", l.state(), l.shard)) {
			continue
		}
		found = append(found, findIn(text, rows, l, q.text, args[0].(int64), int(args[1].(int64)))...)
	}
	return found
}

// findIn reads a lane. Which messages are held back counts as far as the query asks.
func findIn(text sqltext.SQL, rows []row, l *lane, query string, from int64, limit int) (found [][]driver.Value) {
	held, keys := 0, make(map[string]bool)
	if !slices.ContainsFunc(rows, func(r row) bool { return r.shard == l.shard }) {
		return nil
	}
	for _, r := range rows {
		if r.shard == l.shard && kindOf(&r) == laneHeld {
			keys[r.orderKey] = true
		}
	}
	if l.kind == laneOrdered && len(keys) > 0 && strings.Contains(query, text.HasHeld(stateOrdered, l.shard)) {
		held = 1
	}
	passes := l.kind == laneOrdered && strings.Contains(query, text.Unheld(stateOrdered, l.shard))
	for _, r := range rows {
		if r.shard != l.shard || kindOf(&r) != l.kind || l.place(&r) <= from || l.byDue() && r.due > time.Now().UnixMicro() || passes && keys[r.orderKey] {
			continue
		}
		if len(found) < limit {
			one := []driver.Value{r.id, r.nonce, int64(r.state), int64(r.shard), r.due, int64(r.attempts), int64(max(1, r.size)), r.messageID, "", "q", r.orderKey}
			if r.orderKey == largeKey {
				one = append(one, int64(0), nil, nil, nil, int64(held))
			} else {
				one = append(one, int64(1), "{}", "", []byte("x"), int64(held))
			}
			found = append(found, one)
		}
	}
	return found
}
