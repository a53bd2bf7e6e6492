package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/dialect"
)

// server is a fake PostgreSQL on which a whole relay works. Statements wait for the locks of other transactions. A statement that is
// canceled breaks its connection, and the server notices late: until then the connection keeps its locks, as with pgx when the server is
// busy. Each statement can have a fault.
type server struct {
	fakeDB
	t     *testing.T
	run   *run
	lanes []*lane

	mu       sync.Mutex
	rows     []row
	leases   map[int64]leased
	relays   map[string]bool
	number   int64 // of the last transaction
	open     map[int]*opened
	locks    map[string]*opened
	freed    chan struct{}                                  // closed when locks are released
	seen     map[string]int                                 // how many statements of each kind there were
	faulty   func(kind string, nth int) (f fault, hit bool) // nil: nothing is
	canceled []string                                       // statements whose context ended before the answer
}

// leased is a row of the table of leases.
type leased struct {
	owner   string
	expires time.Time
}

// opened is a transaction.
type opened struct {
	does     string // what it has done last
	changes  []func()
	lockWait time.Duration // 0: without a limit
}

// fault is what happens to one statement: its answer is lost.
type fault struct {
	of     string        // the kind of statement
	nth    int           // of this kind, from 1
	effect bool          // the server executes it nevertheless
	silent bool          // nothing comes until the relay gives up; otherwise the connection breaks at once
	slow   time.Duration // the answer is not lost, but takes this long
	begins func()        // is called when a slow statement begins
}

// hits returns the fault for its statement only.
func (f fault) hits(kind string, nth int) (fault, bool) { return f, kind == f.of && nth == f.nth }

// silence is how long the server does not notice that a connection has broken.
const silence = 15 * time.Second

func newServer(t *testing.T, client Publisher) *server {
	t.Helper()
	s := &server{t: t, lanes: newLanes(), leases: make(map[int64]leased), relays: make(map[string]bool), number: 1,
		open: make(map[int]*opened), locks: make(map[string]*opened), freed: make(chan struct{}), seen: make(map[string]int)}
	for shard := range int64(shards) {
		s.leases[shard] = leased{}
	}
	s.fakeDB.answer = s.answer
	s.run = newRun(Relay{Client: client, DB: s.fakeDB.open(t), Dialect: dialect.Postgres, Name: "relay", Logger: slog.New(slog.DiscardHandler)}.withDefaults())
	s.run.level = sql.LevelReadCommitted
	return s
}

// start runs the relay. stop ends it, and returns how long that took.
func (s *server) start() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run.work(ctx) }()
	return func() time.Duration {
		s.t.Helper()
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("relay: got error %v, want none", err)
		}
		return time.Since(began)
	}
}

// put commits messages, given as "key/number". Each key has a shard.
func (s *server) put(messages ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		key, number, _ := strings.Cut(m, "/")
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		r := row{id: id, nonce: id, state: stateOrdered, shard: len(key) % shards, messageID: number, orderKey: key}
		if key == "" {
			r.state = stateReady
		}
		s.rows = append(s.rows, r)
	}
}

// lock has somebody lock a row until release is called.
func (s *server) lock(id int64) (release func()) {
	tx := &opened{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[fmt.Sprint("row ", id)] = tx
	return func() { s.end(tx, false) }
}

// left are the rows, as "number:state".
func (s *server) left() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		all = append(all, fmt.Sprintf("%d:%d", r.id, r.state))
	}
	slices.Sort(all)
	return all
}

// wantReturned checks that the relay has given everything back.
func (s *server) wantReturned() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, l := range s.leases {
		if l.owner != "" {
			s.t.Errorf("lease %d was not given back", shard)
		}
	}
	if len(s.relays) > 0 {
		s.t.Errorf("got relays %v, want none: it has not signed off", s.relays)
	}
}

// texts are the kinds of statements, by a part of their text. The first that matches counts.
var texts = []struct{ text, kind string }{
	{"ORDER BY due", "read messages"},
	{"SELECT 1 FROM rehop_outbox_relay", "find the relay"},
	{"SKIP LOCKED", "lock what is free"},
	{"line.body FROM", "load"},
	{"SELECT line.id", "find what is there"},
	{"DELETE FROM rehop_outbox AS", "delete rows"},
	{"UPDATE rehop_outbox AS", "update rows"},
	{"SELECT COUNT(*), txid", "barrier"},
	{"lock_timeout", "settings of a write"},
	{"txid_snapshot_xmin", "settings"},
	{"SELECT id, nonce FROM", "find what was kept"},
	{"UPDATE rehop_outbox_relay", "renew the relay"},
	{"INSERT INTO rehop_outbox_relay", "register"},
	{"DELETE FROM rehop_outbox_relay", "unregister"},
	{"SELECT owner FROM rehop_outbox_relay", "find dead relays"},
	{"SELECT COUNT(*) FROM rehop_outbox_relay", "count relays"},
	{"SELECT shard, owner", "read leases"},
	{"SELECT shard FROM", "read own leases"},
	{"SET owner = ''", "release"},
	{"SET owner = ", "acquire"},
	{"UPDATE rehop_outbox_lease SET expires", "renew leases"},
}

// kind is what a statement does. The caller has the lock.
func (s *server) kind(q statement) string {
	switch q.text {
	case "COMMIT", "ROLLBACK":
		if tx := s.open[q.connection]; tx != nil {
			return strings.ToLower(q.text) + ": " + tx.does
		}
		return "too late"
	}
	for _, k := range texts {
		if strings.Contains(q.text, k.text) {
			return k.kind
		}
	}
	return q.text
}

// answer is the server's.
func (s *server) answer(q statement) ([][]driver.Value, error) {
	s.mu.Lock()
	kind, hit := s.kind(q), false
	s.seen[kind]++
	var f fault
	if s.faulty != nil {
		f, hit = s.faulty(kind, s.seen[kind])
	}
	s.mu.Unlock()
	switch {
	case !hit:
		return s.do(q, kind, time.Millisecond)
	case f.slow > 0:
		f.begins()
		return s.do(q, kind, f.slow)
	case f.effect:
		if _, err := s.do(q, kind, 0); err != nil {
			return nil, err
		}
	}
	if f.silent {
		<-q.ctx.Done()
	}
	s.strand(q.connection, nil)
	return nil, errBroken
}

// do executes a statement.
func (s *server) do(q statement, kind string, took time.Duration) ([][]driver.Value, error) {
	s.mu.Lock()
	tx := s.open[q.connection]
	s.mu.Unlock()
	switch {
	case q.text == "BEGIN":
		tx = &opened{does: "nothing"}
	case tx == nil && q.text == "ROLLBACK":
		return nil, nil
	case tx == nil:
		tx = &opened{}
		defer func() { s.end(tx, true) }()
	}
	rows, err := s.execute(tx, q, kind)
	if err == nil && took > 0 {
		err = s.wait(q, kind, time.After(took), nil)
	}
	if errors.Is(err, errBroken) {
		s.strand(q.connection, tx)
		tx = &opened{} // what is ended above
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch q.text {
	case "BEGIN":
		s.open[q.connection] = tx
	case "COMMIT", "ROLLBACK":
		delete(s.open, q.connection)
	}
	s.mu.Unlock()
	if q.text == "COMMIT" || q.text == "ROLLBACK" {
		s.end(tx, q.text == "COMMIT")
	}
	return rows, nil
}

// wait waits for one of two events, or until the statement is canceled.
func (s *server) wait(q statement, kind string, over <-chan time.Time, freed <-chan struct{}) error {
	select {
	case <-over:
	case <-freed:
	case <-q.ctx.Done():
		s.mu.Lock()
		s.canceled = append(s.canceled, kind)
		s.mu.Unlock()
		return fmt.Errorf("%w: %w", errBroken, q.ctx.Err())
	}
	return nil
}

// strand has the server notice late that a connection has broken.
func (s *server) strand(connection int, tx *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.open[connection]; open != nil {
		tx = open
	}
	delete(s.open, connection)
	if tx != nil {
		time.AfterFunc(silence, func() { s.end(tx, false) })
	}
}

// end ends a transaction.
func (s *server) end(tx *opened, commit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if commit {
		for _, change := range tx.changes {
			change()
		}
	}
	tx.changes = nil
	for name, by := range s.locks {
		if by == tx {
			delete(s.locks, name)
		}
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// locked waits until a transaction has locks.
func (s *server) locked(tx *opened, q statement, kind string, names []string) error {
	var late <-chan time.Time
	if tx.lockWait > 0 {
		late = time.After(tx.lockWait)
	}
	began := time.Now()
	for {
		s.mu.Lock()
		freed := s.freed
		if !slices.ContainsFunc(names, func(name string) bool { return s.locks[name] != nil && s.locks[name] != tx }) {
			for _, name := range names {
				s.locks[name] = tx
			}
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		if err := s.wait(q, kind, late, freed); err != nil {
			return err
		}
		if tx.lockWait > 0 && time.Since(began) >= tx.lockWait {
			return errors.New("canceling statement due to lock timeout (SQLSTATE 55P03)")
		}
	}
}

// execute has a transaction lock and change what a statement is about, and returns what it reads. Others see the changes later.
func (s *server) execute(tx *opened, q statement, kind string) (rows [][]driver.Value, err error) {
	if !strings.Contains(kind, "settings") && q.text != "COMMIT" && q.text != "ROLLBACK" && q.text != "BEGIN" {
		tx.does = kind
	}
	if err := s.locked(tx, q, kind, s.needs(q, kind)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number := func(n int) [][]driver.Value { return [][]driver.Value{{int64(n)}} }
	switch kind {
	case "settings", "settings of a write":
		if _, limit, found := strings.Cut(q.text, "'lock_timeout', '"); found {
			limit, _, _ = strings.Cut(limit, "'")
			tx.lockWait, err = time.ParseDuration(limit + "ms")
		}
		s.number += 10
		return [][]driver.Value{{s.number, int64(1), ""}}, err
	case "read messages":
		return find(s.run.sql, s.lanes, s.rows, q), nil
	case "barrier":
		held := 0
		for _, shard := range listed(q.text) {
			if l := s.leases[shard]; l.owner == q.args[0] && time.Now().Before(l.expires) {
				held++
			}
		}
		return [][]driver.Value{{int64(held), s.number + 1, int64(1)}}, nil
	case "lock what is free", "find what is there":
		for _, r := range s.rows {
			name := fmt.Sprint("row ", r.id)
			if !isAmong(&r, q) || kind == "lock what is free" && s.locks[name] != nil {
				continue
			}
			if kind == "lock what is free" {
				s.locks[name] = tx
			}
			rows = append(rows, []driver.Value{r.id, r.nonce})
		}
		return rows, nil
	case "load":
		for _, r := range s.rows {
			if isAmong(&r, q) {
				rows = append(rows, []driver.Value{r.id, r.nonce, "{}", "", []byte("x")})
			}
		}
		return rows, nil
	case "find the relay":
		name := q.args[0].(string)
		if s.relays[name] && !(strings.HasSuffix(q.text, "SKIP LOCKED") && s.locks["relay "+name] != nil) {
			return number(1), nil
		}
	case "read leases":
		for shard, l := range s.leases {
			rows = append(rows, []driver.Value{shard, l.owner, time.Until(l.expires).Microseconds()})
		}
		return rows, nil
	case "read own leases":
		for shard, l := range s.leases {
			if l.owner == q.args[0] {
				rows = append(rows, []driver.Value{shard})
			}
		}
		return rows, nil
	case "count relays":
		return number(len(s.relays)), nil
	case "renew the relay":
		if !s.relays[q.args[1].(string)] {
			return number(0), nil
		}
	default:
		tx.changes = append(tx.changes, func() { s.change(q, kind) })
	}
	return nil, nil
}

// needs are the locks that a statement needs.
func (s *server) needs(q statement, kind string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case "delete rows", "update rows":
		for _, r := range s.rows {
			if isAmong(&r, q) {
				names = append(names, fmt.Sprint("row ", r.id))
			}
		}
	case "release", "acquire", "renew leases":
		for _, shard := range s.changed(q, kind) {
			names = append(names, fmt.Sprint("lease ", shard))
		}
	case "renew the relay":
		names = append(names, fmt.Sprint("relay ", q.args[1]))
	case "register", "unregister":
		names = append(names, fmt.Sprint("relay ", q.args[0]))
	}
	return names
}

// changed are the leases that meet the condition of a statement.
func (s *server) changed(q statement, kind string) (some []int64) {
	owner, list := q.args[len(q.args)-1], q.args[len(q.args)-2].(string)
	for _, text := range strings.Split(list, ",") {
		shard, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		l := s.leases[shard]
		if kind == "acquire" && !time.Now().Before(l.expires) || l.owner == owner && (kind != "renew leases" || time.Now().Before(l.expires)) {
			some = append(some, shard)
		}
	}
	return some
}

// change is what a statement does to the tables when its transaction commits.
func (s *server) change(q statement, kind string) {
	expires := time.Now().Add(s.run.Lease)
	switch kind {
	case "delete rows":
		s.rows = slices.DeleteFunc(s.rows, func(r row) bool { return isAmong(&r, q) })
	case "update rows":
		for i := range s.rows {
			if r := &s.rows[i]; isAmong(r, q) {
				s.update(r, q.text)
			}
		}
	case "register":
		s.relays[q.args[0].(string)] = true
	case "unregister":
		delete(s.relays, q.args[0].(string))
	case "release", "acquire", "renew leases":
		for _, shard := range s.changed(q, kind) {
			switch l := s.leases[shard]; kind {
			case "release":
				s.leases[shard] = leased{}
			case "acquire":
				s.leases[shard] = leased{q.args[0].(string), expires}
			default:
				s.leases[shard] = leased{l.owner, expires}
			}
		}
	}
}

var dues = regexp.MustCompile(`due = .* \+ (\d+), attempts`)

// update changes a row whose message was not published.
func (s *server) update(r *row, text string) {
	if _, states, _ := strings.Cut(text, "state IN "); !strings.Contains(states, strconv.Itoa(r.state)) {
		return
	}
	if strings.Contains(text, "SET state = 3") {
		r.state, r.due = stateAside, 0
		return
	}
	if strings.Contains(text, "SET state = 2") {
		r.state = stateDelayed
	}
	micros, err := strconv.ParseInt(dues.FindStringSubmatch(text)[1], 10, 64)
	if err != nil {
		panic(err)
	}
	r.due = time.Now().UnixMicro() + micros
}

var lists = regexp.MustCompile(`shard IN \(([0-9, ]+)\)`)

// listed are the shards in a statement's text.
func listed(text string) (all []int64) {
	for _, number := range strings.Split(lists.FindStringSubmatch(text)[1], ", ") {
		shard, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic(err)
		}
		all = append(all, shard)
	}
	return all
}
