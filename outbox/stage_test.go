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
	b := &stage{t: t, db: &fakeDB{}, client: &scripted{state: rehop.StateOpen, answers: make(map[string]error)}, server: 1}
	b.db.answer = b.answer
	b.run = newRun(Relay{Client: b.client, DB: b.db.open(t), Dialect: speaks, Lease: time.Hour}.withDefaults())
	b.run.leases.take(time.Now(), []int{stageShard})
	b.d = &dispatcher{run: b.run, lanes: newLanes()}
	b.d.reader, b.d.done = newReader(b.run, b.d.lanes), make(chan *batch, len(b.d.lanes))
	return b
}

// put commits messages, given as "key/number".
func (b *stage) put(messages ...string) {
	b.t.Helper()
	for _, m := range messages {
		key, number, _ := strings.Cut(m, "/")
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		b.rows = append(b.rows, row{id: id, nonce: id, state: stateOrdered, shard: stageShard, messageID: number, orderKey: key})
	}
}

// look has the dispatcher look once, and waits for what it has begun.
func (b *stage) look() {
	b.t.Helper()
	if _, err := b.d.look(b.t.Context(), b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	for b.d.running > 0 {
		b.d.finish(<-b.d.done)
	}
}

// sent are the messages that were handed to the publisher since the last call, in their order.
func (b *stage) sent() (ids []string) {
	for _, wave := range b.client.waves {
		ids = append(ids, wave...)
	}
	b.client.waves = nil
	return ids
}

// wantSent checks what was handed to the publisher since the last check.
func (b *stage) wantSent(when string, ids ...string) {
	b.t.Helper()
	if got := b.sent(); !slices.Equal(got, ids) {
		b.t.Errorf("%s: sent %v, want %v", when, got, ids)
	}
}

// answer is the database's.
func (b *stage) answer(s statement) ([][]driver.Value, error) {
	if b.fails != "" && strings.Contains(s.text, b.fails) {
		return nil, fmt.Errorf("the server fails on purpose: %s", b.fails)
	}
	switch {
	case s.text == b.run.sql.Steady():
		b.number += 10
		return [][]driver.Value{{b.number, b.server, ""}}, nil
	case isBarrier(s) && strings.HasPrefix(s.text, "SELECT"):
		return [][]driver.Value{{int64(1), b.number + 1, int64(1)}}, nil
	case s.text == "PRAGMA synchronous":
		return [][]driver.Value{{int64(2)}}, nil
	case isLook(s):
		return b.find(s), nil
	case strings.HasPrefix(s.text, "SELECT line.id"):
		return b.there(s, strings.HasSuffix(s.text, "SKIP LOCKED")), nil
	case b.isLocked(s):
		return nil, errors.New("canceling statement due to lock timeout (SQLSTATE 55P03)")
	case strings.HasPrefix(s.text, "DELETE"):
		b.rows = slices.DeleteFunc(b.rows, func(r row) bool { return isAmong(&r, s) })
	case strings.HasPrefix(s.text, "UPDATE") && strings.Contains(s.text, "due = "):
		for i := range b.rows {
			if isAmong(&b.rows[i], s) {
				b.rows[i].due = time.Now().Add(b.run.RetryMin).UnixMicro()
			}
		}
	}
	return nil, nil
}

// isLook reports whether a statement reads messages.
func isLook(s statement) bool {
	return strings.Contains(s.text, "FROM rehop_outbox") && strings.Contains(s.text, "ORDER BY due")
}

// isBarrier reports whether a statement compares leases or writes the barrier.
func isBarrier(s statement) bool {
	return strings.HasPrefix(s.text, "SELECT COUNT(*)") && strings.Contains(s.text, "outbox_lease") || strings.Contains(s.text, "SET barrier")
}

// isAmong reports whether a statement for PostgreSQL is about a row: the last arguments are numbers and nonces.
func isAmong(r *row, s statement) bool {
	return slices.Contains(strings.Split(s.args[len(s.args)-2].(string), ","), fmt.Sprint(r.id))
}

// isLocked reports whether a statement changes a row that somebody has locked.
func (b *stage) isLocked(s statement) bool {
	return (strings.HasPrefix(s.text, "UPDATE rehop_outbox AS") || strings.HasPrefix(s.text, "DELETE")) &&
		slices.ContainsFunc(b.rows, func(r row) bool { return slices.Contains(b.locked, r.id) && isAmong(&r, s) })
}

// there are the rows that a statement names and that exist, or those of them that nobody has locked.
func (b *stage) there(s statement, free bool) (found [][]driver.Value) {
	for _, r := range b.rows {
		if isAmong(&r, s) && !(free && slices.Contains(b.locked, r.id)) {
			found = append(found, []driver.Value{r.id, r.nonce})
		}
	}
	return found
}

// find reads lanes as a database would: one, or all of them with two arguments for each.
func (b *stage) find(s statement) (found [][]driver.Value) {
	for i, l := range b.d.lanes {
		if l.shard != stageShard {
			continue
		}
		args := s.args
		if len(args) > 2 {
			args = args[2*i:]
		} else if !strings.Contains(s.text, fmt.Sprintf("state = %d AND shard = %d", l.state(), l.shard)) {
			continue
		}
		found = append(found, b.findIn(l, s.text, args[0].(int64), int(args[1].(int64)))...)
	}
	return found
}

// findIn reads a lane. Which messages are held back counts as far as the query asks.
func (b *stage) findIn(l *lane, text string, from int64, limit int) (found [][]driver.Value) {
	held, keys := 0, make(map[string]bool)
	for _, r := range b.rows {
		if kindOf(&r) == laneHeld {
			keys[r.orderKey] = true
		}
	}
	if l.kind == laneOrdered {
		b.from = from
		if len(keys) > 0 && strings.Contains(text, b.run.sql.HasHeld(stateOrdered, l.shard)) {
			held = 1
		}
	}
	passes := l.kind == laneOrdered && strings.Contains(text, b.run.sql.Unheld(stateOrdered, l.shard))
	for _, r := range b.rows {
		if kindOf(&r) != l.kind || l.place(&r) <= from || l.byDue() && r.due > time.Now().UnixMicro() || passes && keys[r.orderKey] {
			continue
		}
		if len(found) < limit {
			found = append(found, []driver.Value{r.id, r.nonce, int64(r.state), int64(r.shard), r.due, int64(r.attempts), int64(1),
				r.messageID, "", "q", r.orderKey, int64(1), "{}", "", []byte("x"), int64(held)})
		}
	}
	return found
}
