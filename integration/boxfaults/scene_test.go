package boxfaults

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/outbox"
)

// exchange is where writers publish to, by way of the outbox.
const exchange = "orders"

// store is a database, and what a commit looks like on its way there.
type store struct {
	*lab.Database
	speaks dialect.Dialect
	commit string
}

// server reports whether it has a server that can be killed.
func (s store) server() bool { return s.Node != "" }

// through is the database by way of a proxy.
func (s store) through(t testing.TB, p *proxy.Proxy) string {
	t.Helper()
	if s.speaks == dialect.MySQL {
		config, err := mysql.ParseDSN(s.Source)
		if err != nil {
			t.Fatal(err)
		}
		config.Addr = p.Addr()
		return config.FormatDSN()
	}
	u, err := url.Parse(s.Source)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.Addr()
	return u.String()
}

// address is that of the database's server.
func (s store) address(t testing.TB) string {
	t.Helper()
	if s.speaks == dialect.MySQL {
		config, err := mysql.ParseDSN(s.Source)
		if err != nil {
			t.Fatal(err)
		}
		return config.Addr
	}
	u, err := url.Parse(s.Source)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// broker is one that can be killed.
type broker interface {
	url() string
	kill()
	start()
}

// scene is writers, two relays and a consumer at work, and those who watch.
type scene struct {
	t      *testing.T
	random *rand.Rand
	store  store
	proxy  *proxy.Proxy // nil where there is no server
	db     *sql.DB      // that nobody cuts
	broker broker
	books  *books

	orders   orders // for relays and the consumer
	relays   [2]*process
	consumer *process
	kills    int

	writing sync.WaitGroup
	rest    context.CancelFunc
}

func newScene(t *testing.T, st store, openBroker func(*scene) broker, seed uint64) *scene {
	t.Helper()
	s := &scene{t: t, random: rand.New(rand.NewPCG(seed, 0)), store: st, books: newBooks()}
	s.db = st.Open(t)
	ctx := kit.Context(t)
	if err := st.speaks.Migrate(ctx, s.db); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE business (name VARCHAR(100) NOT NULL)", "CREATE TABLE effect (name VARCHAR(100) NOT NULL)"} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	s.orders = orders{Driver: st.Driver, Source: st.Source, Dialect: st.speaks}
	if st.server() {
		p, err := proxy.New(st.address(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		s.proxy, s.orders.Source = p, st.through(t, p)
	}
	s.broker = openBroker(s)
	s.orders.Broker = s.broker.url()
	s.watch()
	s.consumer = s.spawn("consumer")
	for i := range s.relays {
		s.relays[i] = s.spawn("relay")
	}
	s.write()
	s.progress()
	return s
}

func (s *scene) spawn(role string) *process {
	s.t.Helper()
	o := s.orders
	o.Role = role
	return spawn(s.t, o)
}

// watch writes down what is published, and what the handlers produce.
func (s *scene) watch() {
	s.t.Helper()
	client := kit.Open(s.t, rehop.Config{URL: s.broker.url(), Name: "watch", ReconnectMin: 20 * time.Millisecond, ReconnectMax: 200 * time.Millisecond})
	kit.Subscribe(s.t, client, rehop.Subscription{Queue: "audit", Exchange: exchange, Prefetch: 100, CrashLimit: 40, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		s.books.publish(d.ID)
		return nil
	})})
	kit.Subscribe(s.t, client, rehop.Subscription{Queue: "out", Prefetch: 100, CrashLimit: 40, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		s.books.produce(d.CorrelationID, d.ID)
		return nil
	})})
}

// Writers, and how long one rests at most between two transactions.
const (
	writers = 4
	rest    = 40 * time.Millisecond
)

// write has writers commit and roll back until the scene is finished.
func (s *scene) write() {
	s.t.Helper()
	db, err := sql.Open(s.orders.Driver, s.orders.Source)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.rest = cancel
	s.t.Cleanup(func() {
		cancel()
		s.writing.Wait()
		_ = db.Close()
	})
	for w := range writers {
		random := rand.New(rand.NewPCG(s.random.Uint64(), 0))
		s.writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.transact(db, fmt.Sprintf("%d-%d", w, n), random)
				timer := time.NewTimer(time.Duration(random.Int64N(int64(rest))))
				select {
				case <-timer.C:
				case <-ctx.Done():
				}
				timer.Stop()
			}
		})
	}
}

// transact is one transaction of a writer: it may commit, roll back, or fail in any place.
func (s *scene) transact(db *sql.DB, id string, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return // nothing was written
	}
	m := outbox.Message{Message: rehop.Message{ID: id, Exchange: exchange, Key: "order.made"}}
	if random.IntN(2) == 0 {
		m.OrderKey = fmt.Sprint("key ", random.IntN(5))
	}
	_, err = tx.ExecContext(ctx, s.store.speaks.Bind("INSERT INTO business (name) VALUES (?)"), id)
	if err == nil {
		err = outbox.New(s.store.speaks).Publish(ctx, tx, m)
	}
	if err != nil || random.IntN(5) == 0 {
		_ = tx.Rollback()
		s.books.rollback(id)
		return
	}
	if err := tx.Commit(); err != nil {
		s.books.doubt() // the database will tell
		return
	}
	s.books.commit(id)
}

// progress waits until some more messages have gone all the way.
func (s *scene) progress() {
	s.t.Helper()
	const some = 10
	timer := time.NewTimer(soon)
	defer timer.Stop()
	from := -1
	for {
		produced, published := 0, 0
		news := s.books.look(func() { produced, published = len(s.books.produced), len(s.books.published) })
		if from < 0 {
			from = produced
		}
		if produced >= from+some {
			return
		}
		select {
		case <-news:
		case <-timer.C:
			s.t.Fatalf("after %v: %d messages were published and %d have gone all the way, want %d more", soon, published, produced, from+some-produced)
		}
	}
}

// strike does harm, and waits until work goes on.
func (s *scene) strike(strike strike) {
	s.t.Helper()
	began := time.Now()
	n := strike.do(s)
	s.kills += n
	s.progress()
	s.t.Logf("%s: %d, work went on within %v", strike.name, n, time.Since(began).Round(time.Millisecond))
}

// finish lets all come to rest and audits.
func (s *scene) finish() report {
	s.t.Helper()
	s.rest()
	s.writing.Wait()
	deadline := time.Now().Add(soon)
	is := s.truth()
	for s.books.missing(is) > 0 && time.Now().Before(deadline) {
		select {
		case <-s.books.look(func() {}):
		case <-time.After(100 * time.Millisecond):
		}
		is = s.truth()
	}
	s.consumer.stop()
	for _, r := range s.relays {
		r.stop()
	}
	r := s.books.audit(s.t, s.truth())
	r.kills = s.kills
	s.t.Logf("%v, %d commits in doubt", &r, s.books.doubtful)
	if left := s.count("SELECT COUNT(*) FROM rehop_outbox"); left > 0 {
		s.t.Errorf("rows in the outbox at the end: got %d, want none", left)
	}
	if r.committed < 50 || r.rolledBack == 0 {
		s.t.Errorf("%d were committed and %d rolled back: too few to show anything", r.committed, r.rolledBack)
	}
	return r
}

func (s *scene) count(query string) (n int) {
	s.t.Helper()
	if err := s.db.QueryRowContext(kit.Context(s.t), query).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// truth asks the database.
func (s *scene) truth() truth {
	s.t.Helper()
	is := truth{effects: make(map[string]int)}
	for _, table := range []string{"business", "effect"} {
		rows, err := s.db.QueryContext(kit.Context(s.t), "SELECT name FROM "+table)
		if err != nil {
			s.t.Fatal(err)
		}
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				s.t.Fatal(err)
			}
			if table == "business" {
				is.committed = append(is.committed, name)
			} else {
				is.effects[name]++
			}
		}
		if err := rows.Err(); err != nil {
			s.t.Fatal(err)
		}
		_ = rows.Close()
	}
	return is
}

// embedded is the embedded broker in a process of its own.
type embedded struct {
	t       testing.TB
	orders  orders
	process *process
}

func embeddedBroker(s *scene) broker {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close() // the next lives of the broker need it, too
	e := &embedded{t: s.t, orders: orders{Role: "broker", Dir: s.t.TempDir(), Addr: addr}}
	e.start()
	return e
}

func (e *embedded) url() string { return "amqp://guest:guest@" + e.orders.Addr + "/" }

func (e *embedded) kill() {
	e.t.Helper()
	if !e.process.kill() {
		e.t.Fatal("the broker had ended before it was killed")
	}
}

func (e *embedded) start() {
	e.t.Helper()
	e.process = spawn(e.t, e.orders)
}

// rabbit is a RabbitMQ that this process alone uses.
type rabbit struct {
	t   testing.TB
	lab *lab.Rabbit
}

func rabbitBroker(s *scene) broker { return &rabbit{s.t, lab.Single(s.t)} }

func (r *rabbit) url() string { return r.lab.URL }

func (r *rabbit) kill() {
	r.t.Helper()
	r.lab.Services("kill", strings.Join(r.lab.Nodes(), " "))
}

func (r *rabbit) start() {
	r.t.Helper()
	r.lab.Services("start", strings.Join(r.lab.Nodes(), " "))
}
