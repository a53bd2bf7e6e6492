package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/layouts"
)

// scale is how large a move is.
type scale struct {
	messages int           // a third of them waits, a tenth has failed
	wait     time.Duration // how long those wait, at least
	kills    int           // of each kind
	slice    int           // bytes that the move sends at once, so that a move of few messages takes some time; 0: any
	latency  time.Duration // of what the move sends, so that it can be disturbed in between
}

func scaleOf() scale {
	if os.Getenv("REHOP_FAULTS") == "long" {
		return scale{100_000, 12 * time.Minute, 4, 0, latency}
	}
	return scale{3_000, 100 * time.Second, 1, 2 << 10, latency}
}

// stepLimit is how long one step of a test may take.
const stepLimit = 20 * time.Minute

// scene is a move from one broker to another, which a proxy is in front of.
type scene struct {
	t       *testing.T
	ctx     context.Context
	from    *side
	to      *side
	proxy   *proxy.Proxy
	through string // the URL of the target through the proxy
	size    scale
	waiting int          // how many wait
	unacked int          // how many messages handlers have at a time, which are handled again when their broker is killed
	here    atomic.Int64 // how many have been handled on the source while the move ran
	there   atomic.Int64 // the same on the target
	subs    []*rehop.Subscription

	mu    sync.Mutex // while messages are published or handled
	books *books
	last  time.Time // when the last message is due
}

// latency is that of what a move sends when it is tried first.
const latency = 10 * time.Millisecond

func newScene(t *testing.T, from, to *side, size scale) *scene {
	t.Helper()
	u, err := url.Parse(to.URL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.SetPlan(func(int) proxy.Plan {
		return proxy.Plan{Up: proxy.Way{Latency: size.latency, Slice: size.slice}}
	})
	u.Host = p.Addr()
	t.Cleanup(from.close)
	t.Cleanup(to.close)
	return &scene{t: t, ctx: kit.Timeout(t, 3*stepLimit), from: from, to: to, proxy: p, through: u.String(), size: size, books: newBooks()}
}

// fill publishes messages to the source: some are ready, some have failed, some wait for their next attempt, and some are delayed.
func (s *scene) fill() {
	s.t.Helper()
	size := s.size
	config := rehop.Config{URL: s.from.URL, Exchanges: []rehop.Exchange{{Name: "order"}}}
	client := kit.Open(s.t, config)
	sub, err := client.Subscribe(s.ctx, rehop.Subscriber{Queue: "orders", Exchange: "order", Keys: []string{"order.#"}, Retry: rehop.Steps(size.wait), Concurrency: 64, Prefetch: 256,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if strings.HasPrefix(d.ID, "fails") {
				return rehop.Permanent(errors.New("broken"))
			}
			s.expect(d.ID, fate{key: d.Key, failures: 1, due: time.Now().Add(size.wait)})
			return errors.New("not now")
		})})
	if err != nil {
		s.t.Fatal(err)
	}
	retried, failed := size.messages/6, size.messages/10
	s.publish(client, "waits", retried, func(int) time.Duration { return 0 })
	s.publish(client, "fails", failed, func(int) time.Duration { return 0 })
	step := layouts.StepQueue(size.wait)
	lab.Eventually(s.t, stepLimit, "all have failed once", func() bool {
		return s.from.depth(step) == retried && s.from.depth("orders.failed") == failed && s.from.depth("orders") == 0
	})
	if err := sub.Drain(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	s.waiting = size.messages / 3
	delays := rand.New(rand.NewPCG(1, 2))
	s.publish(client, "later", s.waiting-retried, func(int) time.Duration { return size.wait + time.Duration(delays.Int64N(int64(size.wait/5))) })
	s.publish(client, "now", size.messages-s.waiting-failed, func(int) time.Duration { return 0 })
	if err := client.Close(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// expect enters a message into the books. Handlers call it, too.
func (s *scene) expect(id string, f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.want[id] = f
	if f.due.After(s.last) {
		s.last = f.due
	}
}

// publish publishes messages of a kind, which begins their ids.
func (s *scene) publish(client *rehop.Client, kind string, n int, delay func(int) time.Duration) {
	s.t.Helper()
	const atOnce = 500
	for first := 0; first < n; first += atOnce {
		var some []rehop.Message
		for i := first; i < min(n, first+atOnce); i++ {
			m := rehop.Message{Exchange: "order", Key: "order." + kind, ID: fmt.Sprint(kind, i), Delay: delay(i), Headers: map[string]any{"kept": "yes"}, Body: []byte("a message that moves")}
			f := fate{key: m.Key}
			switch {
			case kind == "fails":
				f.failed, f.failures = true, 1
			case m.Delay > 0:
				f.due = time.Now().Add(m.Delay)
			}
			if kind != "waits" { // the handler enters those
				s.expect(m.ID, f)
			}
			some = append(some, m)
		}
		if err := client.PublishBatch(s.ctx, some); err != nil {
			s.t.Fatal(err)
		}
	}
}

// moved is how many messages the target has in its queue, and how many wait there.
func (s *scene) moved() (ready, waiting int) {
	names, err := s.to.queues()
	if err != nil {
		return 0, 0
	}
	var waits []string
	for _, name := range names {
		if layouts.IsWaitQueue(name) {
			waits = append(waits, name)
		}
	}
	return max(0, s.arrived()), max(0, s.to.depth(waits...))
}

// arrived is how many messages have come into the queue of the target, or -1 while it does not answer.
func (s *scene) arrived() int {
	n := s.to.depth("orders")
	if n < 0 {
		return n
	}
	return n + int(s.there.Load())
}

// disturb runs a move until the target has this many messages more in its queue, or in its delay queues, and then does something to it, while a batch is
// on its way and is not confirmed. It returns false if the move was too fast for this machine to see it in between: then nothing was disturbed.
func (s *scene) disturb(what string, ready, waiting int, do func(*command)) bool {
	s.t.Helper()
	readyBefore, waitingBefore := s.moved()
	c := s.start()
	lab.Eventually(s.t, stepLimit, "messages are moved", func() bool {
		if !c.running() {
			return true
		}
		if waiting == 0 {
			return s.arrived() >= readyBefore+ready
		}
		_, now := s.moved()
		return now >= waitingBefore+waiting
	})
	s.proxy.Freeze("")
	if !c.running() {
		s.proxy.Thaw()
		return s.tooFast(c, what)
	}
	if n := s.from.depth("orders", layouts.StepQueue(s.size.wait)); n < batch {
		c.kill()
		s.proxy.Thaw()
		s.t.Logf("the source has only %d messages left before %s", n, what)
		return false
	}
	now, waits := s.moved()
	s.t.Logf("%s: with %d messages ready on the target and %d waiting", what, now, waits)
	do(c)
	return true
}

// tooFast is for a move that ended before it could be disturbed. That it failed is no matter of speed.
func (s *scene) tooFast(c *command, what string) bool {
	s.t.Helper()
	if c.err != nil {
		s.t.Fatalf("the move failed before %s: %v\n%s%s", what, c.err, c.out.String(), c.errs.String())
	}
	s.t.Logf("the move ended before %s:\n%s%s", what, c.out.String(), c.errs.String())
	return false
}

// TestMoveKilled moves messages with rehop move, while it and both brokers are killed. REHOP_FAULTS=long moves 100,000, with more kills.
func TestMoveKilled(t *testing.T) {
	together(t)
	for _, way := range []struct {
		name     string
		from, to func(*testing.T) *side
		longer   time.Duration // RabbitMQ takes longer to start again
		handled  bool          // consumers keep running on both sides
	}{
		{"FromEmbedded", embedded, rabbitMQ(after), 0, false},
		{"FromOldRelease", rabbitMQ(before), rabbitMQ(after), time.Minute, false},
		{"WhileHandled", embedded, rabbitMQ(after), 0, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			together(t)
			size := scaleOf()
			size.wait += way.longer
			for tries := 1; !moveKilled(newScene(t, way.from(t), way.to(t), size), way.handled); tries++ {
				if tries == maxTries {
					t.Fatalf("inconclusive: with waits of %v and a latency of %v, too, the move could not be disturbed, or ended too late", size.wait, size.latency)
				}
				size.wait, size.latency = 2*size.wait, 2*size.latency
				t.Logf("once more, with waits of %v and a latency of %v", size.wait, size.latency)
			}
		})
	}
}

// together lets the short form of a move run together with others: it waits for messages most of the time. The long form needs the processors for itself.
func together(t *testing.T) {
	t.Helper()
	if os.Getenv("REHOP_FAULTS") != "long" {
		t.Parallel()
	}
}

// maxTries is how often a move is tried, each time slower and with longer waits.
const maxTries = 3

// moveKilled disturbs a move, and audits it. It returns false if the move was too fast, or the waits were too short, to show anything.
func moveKilled(s *scene, handled bool) bool {
	s.t.Helper()
	s.fill()
	if handled {
		s.handle()
		defer s.dismiss()
	}
	ready := s.size.messages - s.waiting - s.size.messages/10
	step := ready / (12 * s.size.kills)
	kills := 0
	killMove := func(c *command) {
		if !c.kill() {
			s.t.Fatal("inconclusive: the move ended by itself")
		}
		kills++
		s.proxy.Thaw()
	}
	for range s.size.kills {
		if !s.disturb("kill -9 of rehop move", step, 0, killMove) {
			return false
		}
		for _, broker := range []*side{s.from, s.to} {
			if !s.disturb("kill -9 of the "+s.name(broker), step, 0, func(c *command) {
				s.killBroker(broker, c)
				kills++
				killMove(c) // so that the next fault finds something to disturb
			}) {
				return false
			}
		}
	}
	if !s.disturb("kill -9 of rehop move while delayed messages move", 0, s.waiting/8, killMove) {
		return false
	}
	s.dismiss()
	if handled && (s.here.Load() == 0 || s.there.Load() == 0) {
		s.t.Error("inconclusive: one side has handled nothing")
	}
	return s.finish(kills)
}

// handle lets both sides handle messages, slowly, until dismiss is called. What they have handled is in the books then.
func (s *scene) handle() {
	s.t.Helper()
	s.unacked = 10
	began := time.Now()
	for side, handled := range map[*side]*atomic.Int64{s.from: &s.here, s.to: &s.there} {
		client := kit.Open(s.t, rehop.Config{URL: side.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
		sub, err := client.Subscribe(s.ctx, rehop.Subscriber{Queue: "orders", Exchange: "order", Keys: []string{"order.#"}, Retry: rehop.Steps(s.size.wait), Rate: handlingRate, Prefetch: s.unacked,
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				now := time.Now()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.books.enter(arrival{id: d.ID, exchange: d.Exchange, key: d.Key, failures: d.Attempt - 1, kept: d.Headers["kept"] == "yes", at: now, watched: s.books.want[d.ID].due.After(began)})
				handled.Add(1)
				return nil
			})})
		if err != nil {
			s.t.Fatal(err)
		}
		s.subs = append(s.subs, sub)
	}
}

// dismiss ends the handling.
func (s *scene) dismiss() {
	s.t.Helper()
	for _, sub := range s.subs {
		if err := sub.Drain(s.ctx); err != nil {
			s.t.Error(err)
		}
	}
	if s.subs != nil {
		s.t.Logf("%d messages were handled on the source and %d on the target while the rest was moved", s.here.Load(), s.there.Load())
	}
	s.subs = nil
}

// handlingRate is how many messages each side handles per second: so few that most are moved.
const handlingRate = 4

// name is which of both a broker is.
func (s *scene) name(broker *side) string {
	if broker == s.from {
		return "source"
	}
	return "target"
}

// killBroker kills a broker and starts it again, and waits until the move continues by itself.
func (s *scene) killBroker(broker *side, c *command) {
	s.t.Helper()
	broker.kill(s.t)
	if n := broker.depth("orders"); n >= 0 {
		s.t.Fatalf("inconclusive: the %s still answers", s.name(broker))
	}
	s.proxy.Thaw()
	before, _ := s.moved() // 0 if it is the target
	broker.start(s.t)
	if broker == s.to {
		before = s.arrived()
	}
	lab.Eventually(s.t, stepLimit, "the move continues", func() bool { return !c.running() || s.arrived() > before+batch })
	if !c.running() {
		s.t.Fatalf("the move has ended after the %s was killed: %v\n%s%s", s.name(broker), c.err, c.out.String(), c.errs.String())
	}
}

// finish moves the rest, compares the balance with the target, and audits it. It returns false if too few messages still waited by then.
func (s *scene) finish(kills int) bool {
	s.t.Helper()
	s.settled()
	before := s.all()
	c := s.start()
	c.wait(s.t, stepLimit)
	var balance admin.Balance
	if err := json.Unmarshal([]byte(c.out.String()), &balance); err != nil {
		s.t.Fatalf("%v\n%s", err, c.out.String())
	}
	s.t.Logf("the last run:\n%s", balance)
	sum := balance.Sum()
	if sum.Left != 0 || sum.Again != 0 || sum.Moved != sum.Arrived+sum.Due {
		s.t.Errorf("got balance\n%s\nwant nothing left, nothing again, and as many moved as arrived and due", balance)
	}
	want := before + sum.Arrived + sum.Due
	lab.Eventually(s.t, time.Minute, fmt.Sprintf("the target has the %d messages of the balance", want), func() bool { return s.all() == want })
	if names, err := s.from.queues(); err != nil || s.from.depth(names...) != 0 {
		s.t.Errorf("the source still has %d messages (%v)", s.from.depth(names...), err)
	}
	if err := s.books.audit(s.ctx, s.to.Rabbit, s.last); err != nil {
		s.t.Fatal(err)
	}
	if complaint := s.books.verdict(kills * (batch + s.unacked)); complaint != "" {
		s.t.Error(complaint)
	}
	if n := s.to.depth(layouts.OrphansQueue, layouts.UnroutedQueue); n != 0 {
		s.t.Errorf("the target has %d orphaned or unrouted messages, want none", n)
	}
	s.t.Logf("messages=%d waiting=%d kills=%d lost=%d twice=%d early=%d watched=%d", len(s.books.want), s.waiting, kills, len(s.books.lost()), s.books.twice(), len(s.books.early), s.books.late)
	return s.books.late >= s.waiting/4
}

// all is how many messages the target has.
func (s *scene) all() int {
	names, err := s.to.queues()
	if err != nil {
		return -1
	}
	return s.to.depth(names...)
}

// settled waits until the brokers have stored what a killed move had sent, and have taken back what it had read.
func (s *scene) settled() {
	s.t.Helper()
	same, last := 0, -1
	lab.Eventually(s.t, time.Minute, "nothing changes on the target", func() bool {
		n := s.all()
		if n != last || n < 0 {
			same, last = 0, n
		}
		same++
		return same > 25 // half a second
	})
}
