package sqlboxes

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/outbox"
)

// Variables that make this program a relay.
const (
	relayDriver   = "REHOP_SQLBOXES_DRIVER"
	relayDatabase = "REHOP_SQLBOXES_DATABASE"
	relayDialect  = "REHOP_SQLBOXES_DIALECT"
	relayBroker   = "REHOP_SQLBOXES_BROKER"
)

// processLease is short, so that relays are soon replaced.
const processLease = time.Second

// relayProcess is a relay in a process of its own, until nobody holds the other end of its input any more.
func relayProcess() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	db, err := sql.Open(os.Getenv(relayDriver), os.Getenv(relayDatabase))
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := rehop.Open(ctx, rehop.Config{URL: os.Getenv(relayBroker)})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	return outbox.Relay{Client: signer{client}, DB: db, Dialect: dialect.Dialect(os.Getenv(relayDialect)), Name: "process", Lease: processLease}.Run(ctx)
}

// signer is a publisher whose messages show that they come from a process of its own.
type signer struct{ outbox.Publisher }

const signature = "process"

func (s signer) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	for i := range messages {
		messages[i].AppID = signature
	}
	s.Publisher.PublishEach(ctx, messages, settled)
}

// scene is two relays, one in a process of its own, and a writer that never pauses.
type scene struct {
	t        *testing.T
	db       *sql.DB
	broker   *lab.Rabbit
	database *lab.Database
	dialect  dialect.Dialect
	client   *rehop.Client

	mu        sync.Mutex
	committed []string
	received  []arrival
}

// arrival is a message that has come, and who sent it.
type arrival struct{ id, by string }

func newScene(t *testing.T, k kind) *scene {
	t.Helper()
	s := &scene{t: t, broker: lab.Embedded(t), database: k.open(t), dialect: k.dialect}
	s.db = s.database.Open(t)
	if err := s.dialect.Migrate(kit.Context(t), s.db); err != nil {
		t.Fatal(err)
	}
	s.client = kit.Open(t, rehop.Config{URL: s.broker.URL})
	kit.Subscribe(t, s.client, rehop.Subscriber{Queue: "q", Prefetch: 100, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		s.mu.Lock()
		s.received = append(s.received, arrival{d.ID, d.AppID})
		s.mu.Unlock()
		return nil
	})})
	return s
}

// relay runs a relay in this process until the test ends.
func (s *scene) relay() {
	s.t.Helper()
	s.run(outbox.Relay{Client: s.client, DB: s.db, Dialect: s.dialect, Name: "here", Lease: processLease})
}

func (s *scene) run(relay outbox.Relay) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("relay: %v", err)
		}
	})
}

// process starts a relay in a process of its own, and waits until it holds leases.
func (s *scene) process() *os.Process {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), relayDriver+"="+s.database.Driver, relayDatabase+"="+s.database.Source,
		relayDialect+"="+string(s.dialect), relayBroker+"="+s.broker.URL)
	cmd.Stdout, cmd.Stderr = s.t.Output(), s.t.Output()
	if _, err := cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.awaitLeases("process", 1)
	return cmd.Process
}

// awaitLeases waits until relays with a name hold at least n leases.
func (s *scene) awaitLeases(name string, n int) {
	s.t.Helper()
	lab.Eventually(s.t, kit.Limit, fmt.Sprintf("%d leases of the relay %q", n, name), func() bool {
		var held int
		err := s.db.QueryRowContext(kit.Context(s.t), s.dialect.Bind("SELECT COUNT(*) FROM rehop_outbox_lease WHERE owner LIKE ?"), name+" %").Scan(&held)
		return s.answered(err) && held >= n
	})
}

// write commits messages, in ten orders, until the test calls stop.
func (s *scene) write() (stop func()) {
	box := outbox.New(s.dialect)
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			id := strconv.Itoa(n)
			// A stop comes between transactions: MySQL's driver may close a connection whose statement's context ends, also after the statement.
			tx, err := s.db.BeginTx(context.Background(), nil)
			if err == nil {
				err = box.Publish(context.Background(), tx, rehop.Message{ID: id, Key: "q", OrderKey: strconv.Itoa(n % 10)})
			}
			if err != nil {
				s.t.Errorf("write: %v", err)
				if tx != nil {
					_ = tx.Rollback()
				}
				return
			}
			if err := tx.Commit(); err != nil {
				s.t.Errorf("commit: %v", err)
				return
			}
			s.mu.Lock()
			s.committed = append(s.committed, id)
			s.mu.Unlock()
		}
	})
	stop = func() {
		cancel()
		writing.Wait()
	}
	s.t.Cleanup(stop)
	return stop
}

// count is how many messages were committed, and how many of them have come.
func (s *scene) count() (committed, came int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	different := make(map[string]bool)
	for _, a := range s.received {
		different[a.id] = true
	}
	return len(s.committed), len(different)
}

// awaitAll waits until all that was committed up to now has come.
func (s *scene) awaitAll() {
	s.t.Helper()
	want, _ := s.count()
	lab.Eventually(s.t, kit.Limit, fmt.Sprintf("all of %d messages", want), func() bool {
		_, came := s.count()
		return came >= want
	})
}

// awaitSigned waits until more has come from the process.
func (s *scene) awaitSigned() {
	s.t.Helper()
	signed := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, a := range s.received {
			if a.by == signature {
				n++
			}
		}
		return n
	}
	before := signed()
	lab.Eventually(s.t, kit.Limit, "messages from the process", func() bool { return signed() >= before+10 })
}

// check holds what has come against what was committed. Some numbers must not have come from the process.
func (s *scene) check(notByProcess func(n int) bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	times := make(map[string]int)
	var last [10]int
	for i := range last {
		last[i] = i - 10
	}
	for _, a := range s.received {
		n, err := strconv.Atoi(a.id)
		if err != nil {
			s.t.Fatal(err)
		}
		if a.by == signature && notByProcess(n) {
			s.t.Errorf("%d was published by the process that had been stopped, want only by the one that took its place", n)
		}
		if times[a.id]++; times[a.id] > 1 {
			continue
		}
		if want := last[n%10] + 10; n != want {
			s.t.Fatalf("order %d: got %d, want %d", n%10, n, want)
		}
		last[n%10] = n
	}
	repeated := 0
	for _, n := range times {
		if n > 1 {
			repeated++
		}
	}
	if len(times) != len(s.committed) {
		s.t.Errorf("published: got %d messages, want the %d that were committed", len(times), len(s.committed))
	}
	s.t.Logf("%d messages, %d more than once", len(times), repeated)
}

// A relay that is killed is replaced, and nothing is lost or out of order.
func TestKilled(t *testing.T) {
	t.Parallel()
	eachKind(t, killed)
}

func killed(t *testing.T, k kind) {
	s := newScene(t, k)
	process := s.process()
	s.relay()
	s.awaitLeases("here", 1)
	stop := s.write()
	for round := range 3 {
		if round > 0 {
			process = s.process()
		}
		s.awaitSigned()
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		s.awaitAll()
		t.Logf("messages of the killed relay came after %v", time.Since(killed))
	}
	stop()
	s.awaitAll()
	s.check(func(int) bool { return false })
}

// A relay that was stopped, and continues when others have taken its place, publishes nothing that is not its own any more.
func TestStopped(t *testing.T) {
	t.Parallel()
	eachKind(t, stopped)
}

func stopped(t *testing.T, k kind) {
	s := newScene(t, k)
	process := s.process()
	s.relay()
	s.awaitLeases("here", 1)
	stop := s.write()
	type span struct{ from, to int }
	var spans []span
	for range 3 {
		s.awaitLeases("process", 8)
		s.awaitAll()
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		from, _ := s.count()
		s.awaitLeases("here", 16)
		s.awaitAll()
		to, _ := s.count()
		s.awaitDeleted(to)
		spans = append(spans, span{from + 1, to}) // one may have been committed and not yet been counted
		if err := process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitLeases("process", 8)
	stop()
	s.awaitAll()
	s.check(func(n int) bool {
		return slices.ContainsFunc(spans, func(sp span) bool { return n >= sp.from && n < sp.to })
	})
}

// A relay that was stopped in the middle of a transaction does not keep its locks: else nobody could delete what it was about to delete.
func TestStoppedLetsGo(t *testing.T) {
	t.Parallel()
	s := newScene(t, onPostgres())
	stopped, err := s.db.BeginTx(kit.Context(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	const lock = "SELECT 1 FROM rehop_outbox_lease WHERE shard = 3 FOR UPDATE"
	for _, statement := range []string{sqltext.SQL{Dialect: dialect.Postgres}.Steady(), lock} {
		if _, err := stopped.ExecContext(kit.Context(t), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if _, err := s.db.ExecContext(kit.Context(t), lock); err != nil {
		t.Errorf("lock what a stopped transaction has locked: got %v, want nil after some seconds", err)
	}
	if err := stopped.Rollback(); err == nil {
		t.Error("the stopped transaction goes on, want it ended by the database")
	}
}

// Every transaction of a relay begins with the statement that bounds it.
func TestTransactionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t, onPostgres())
	config, err := pgx.ParseConfig(s.database.Source)
	if err != nil {
		t.Fatal(err)
	}
	var said transcript
	config.Tracer = &said
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	s.run(outbox.Relay{Client: s.client, DB: db, Dialect: dialect.Postgres, Name: "here", Lease: processLease})
	s.awaitLeases("here", 16)
	stop := s.write()
	lab.Eventually(t, kit.Limit, "some messages", func() bool { _, came := s.count(); return came > 20 })
	stop()
	s.awaitAll()
	committed, _ := s.count()
	s.awaitDeleted(committed)
	begun, unbounded := said.transactions(sqltext.SQL{Dialect: dialect.Postgres}.Steady())
	if begun == 0 || len(unbounded) > 0 {
		t.Errorf("got %d transactions, of which these begin otherwise: %q; want some, and none", begun, unbounded)
	}
}

// transcript is what was sent on some connections.
type transcript struct {
	mu   sync.Mutex
	said map[*pgx.Conn][]string
}

func (tr *transcript) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.said == nil {
		tr.said = make(map[*pgx.Conn][]string)
	}
	tr.said[conn] = append(tr.said[conn], data.SQL)
	return ctx
}

func (tr *transcript) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// transactions counts those that were begun, and returns what was sent first in those that did not begin with a text.
func (tr *transcript) transactions(first string) (begun int, otherwise []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, said := range tr.said {
		for i, statement := range said[:max(len(said)-1, 0)] {
			if strings.HasPrefix(strings.ToLower(statement), "begin") {
				begun++
				if !strings.HasPrefix(said[i+1], first) {
					otherwise = append(otherwise, said[i+1])
				}
			}
		}
	}
	return begun, otherwise
}

// awaitDeleted waits until the table has no message before a number any more.
func (s *scene) awaitDeleted(to int) {
	s.t.Helper()
	lab.Eventually(s.t, kit.Limit, fmt.Sprintf("all before %d are deleted", to), func() bool {
		left, err := s.left()
		return s.answered(err) && !slices.ContainsFunc(left, func(n int) bool { return n < to })
	})
}

// left are the numbers of the messages that are in the table.
func (s *scene) left() (numbers []int, err error) {
	rows, err := s.db.QueryContext(kit.Context(s.t), "SELECT message_id FROM rehop_outbox")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, rows.Err()
}

// answered reports whether a query has an answer; if not, it is asked again. On a busy machine pgx has been seen to report an I/O timeout to
// one whose context had not ended, maybe of an earlier query of the relay's on the same connection.
func (s *scene) answered(err error) bool {
	if err != nil {
		s.t.Logf("query: %v", err)
	}
	return err == nil
}
