package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// ward is an embedded broker in virtual time, with its management API.
type ward struct {
	t      *testing.T
	server *broker.Server
	api    http.Handler
	admin  *admin.Admin
	ch     *amqp.Channel
	late   *lateStatistics // none: they are never late
	slow   time.Duration   // how long the API takes to answer
}

func newWard(t *testing.T, late *lateStatistics) *ward {
	t.Helper()
	w := &ward{t: t, server: &broker.Server{Logger: slog.New(slog.DiscardHandler)}, late: late}
	var err error
	if w.api, err = mgmt.Handler(w.server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
	})
	if late != nil {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { late.run(ctx, w.api) })
		t.Cleanup(func() { stop(); running.Wait() })
	}
	w.admin, err = admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial,
		Management: "http://guest:guest@embedded", HTTP: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.admin.Close)
	w.ch = w.channel()
	return w
}

func (w *ward) channel() *amqp.Channel {
	w.t.Helper()
	conn, err := amqp.DialConfig("amqp://guest:guest@embedded/", amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		return w.server.Dial(context.Background(), network, addr)
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		w.t.Fatal(err)
	}
	return ch
}

// RoundTrip asks the API without a network.
func (w *ward) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.RequestURI = r.URL.RequestURI()
	time.Sleep(w.slow) // in a bubble
	if w.late != nil {
		if answer, ok := w.late.answer(r.URL.Path); ok {
			return answer, nil
		}
	}
	recorder := httptest.NewRecorder()
	w.api.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// lateStatistics makes the API of the embedded broker as late as RabbitMQ's: a queue writes its figures down every interval, they are collected every
// interval, and what was last collected is shown.
type lateStatistics struct {
	queue              string
	interval           time.Duration
	behind             time.Duration // of collecting behind writing
	torn               time.Duration // of showing the counts behind showing the reductions
	mu                 sync.Mutex
	written, collected map[string]any
	reductions         int
}

func (l *lateStatistics) run(ctx context.Context, api http.Handler) {
	write := time.NewTicker(l.interval)
	defer write.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-write.C:
		}
		l.write(api)
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.behind):
		}
		l.collect()
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.torn):
		}
		l.mu.Lock()
		l.collected = l.written
		l.mu.Unlock()
	}
}

// collect shows the new reductions, with the counts as they were.
func (l *lateStatistics) collect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil || l.torn == 0 {
		return
	}
	torn := maps.Clone(l.written)
	for _, count := range []string{"messages", "messages_ready", "messages_unacknowledged"} {
		delete(torn, count)
		if old, there := l.collected[count]; there {
			torn[count] = old
		}
	}
	l.collected = torn
}

func (l *lateStatistics) write(api http.Handler) {
	r := httptest.NewRequest(http.MethodGet, "/api/queues/%2F/"+l.queue, nil)
	r.SetBasicAuth("guest", "guest")
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	recorder := httptest.NewRecorder()
	api.ServeHTTP(recorder, r)
	var figures map[string]any
	if recorder.Code != http.StatusOK || json.Unmarshal(recorder.Body.Bytes(), &figures) != nil {
		return // it is gone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reductions += 1000
	figures["reductions"] = l.reductions
	l.written = figures
}

func (l *lateStatistics) answer(path string) (*http.Response, bool) {
	var content any
	switch path {
	case "/api/overview":
		content = map[string]string{"rabbitmq_version": "3.13.0", "product_name": "RabbitMQ"}
	case "/api/queues///" + l.queue, "/api/queues/%2F/" + l.queue:
		l.mu.Lock()
		defer l.mu.Unlock()
		content = map[string]any{"name": l.queue}
		if l.collected != nil {
			content = l.collected
		}
	default:
		return nil, false
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, false
	}
	recorder := httptest.NewRecorder()
	recorder.Body = bytes.NewBuffer(text)
	return recorder.Result(), true
}

func (w *ward) declare(queue string, args amqp.Table) {
	w.t.Helper()
	if _, err := w.ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) publish(queue string) {
	w.t.Helper()
	if err := w.ch.PublishWithContext(w.t.Context(), "", queue, true, false, amqp.Publishing{Body: []byte("x")}); err != nil {
		w.t.Error(err)
	}
}

// depth is how many messages of a queue are ready.
func (w *ward) depth(queue string) int {
	w.t.Helper()
	q, err := w.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return q.Messages
}

var wanted = topology.Plan{Queues: []topology.Queue{{Name: "q", Args: topology.Args{"x-queue-type": "quorum"}}}}

// While messages come by the queue's name, it is not deleted: each of them makes the wait begin anew.
func TestMigrateWaitsForPublishersByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil)
		w.declare("q", nil)
		const settle, n = 12 * time.Second, 20
		var last, deleted time.Time
		var publishing sync.WaitGroup
		publishing.Go(func() {
			for range n {
				time.Sleep(settle - time.Second)
				w.publish("q")
				last = time.Now()
			}
		})
		_, err := w.admin.Migrate(t.Context(), wanted, "q", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
			if p.Now.Action == admin.ActionDelete && deleted.IsZero() {
				deleted = time.Now()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		publishing.Wait()
		if got := deleted.Sub(last); got < settle || got > settle+time.Second {
			t.Errorf("the queue was deleted %v after the last message, want %v", got, settle)
		}
		if got := w.depth("q"); got != n {
			t.Errorf("got %d messages, want %d", got, n)
		}
	})
}

// However short Settle is, and whenever the broker writes down and collects its statistics: what is held is waited for.
func TestMigrateWithLateStatistics(t *testing.T) {
	for _, late := range []struct{ behind, torn time.Duration }{
		{0, 0}, {time.Millisecond, 0}, {time.Second, 0}, {2500 * time.Millisecond, 0}, {4900 * time.Millisecond, 0},
		{time.Second, 3 * time.Second}, {2500 * time.Millisecond, 2400 * time.Millisecond},
	} {
		for _, hold := range []time.Duration{0, 400 * time.Millisecond, 3 * time.Second, 5100 * time.Millisecond, 9 * time.Second, 14 * time.Second} {
			t.Run(fmt.Sprintf("behind %v torn %v held %v", late.behind, late.torn, hold), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					migrateWhileHeld(t, &lateStatistics{queue: "q", interval: 5 * time.Second, behind: late.behind, torn: late.torn}, hold)
				})
			})
		}
	}
}

// migrateWhileHeld begins to migrate a queue of which a consumer takes messages at some moment between two statistics, and holds them for some time.
func migrateWhileHeld(t *testing.T, late *lateStatistics, hold time.Duration) {
	const n = 100
	w := newWard(t, late)
	wait := w.hold("q", n, hold)
	_, err := w.admin.Migrate(t.Context(), wanted, "q", admin.MigrateOptions{Settle: time.Second, Consumers: admin.IgnoreConsumers})
	if err != nil {
		t.Fatal(err)
	}
	wait()
	if got := w.depth("q"); got != n {
		t.Errorf("got %d messages, want %d", got, n)
	}
}

// bound declares a queue that an exchange leads to.
func (w *ward) bound(queue, exchange string) {
	w.t.Helper()
	w.declare(queue, nil)
	if err := errors.Join(w.ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil), w.ch.QueueBind(queue, "", exchange, false, nil)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) publishID(exchange, key string, id any) {
	if err := w.ch.PublishWithContext(context.Background(), exchange, key, true, false, amqp.Publishing{MessageId: fmt.Sprint(id)}); err != nil {
		w.t.Error(err)
	}
}

// wantIDs takes the messages of a queue, whose ids are numbers from 0 on.
func (w *ward) wantIDs(queue string, n int) {
	w.t.Helper()
	for i := range n {
		d, ok, err := w.ch.Get(queue, true)
		if err != nil || !ok || d.MessageId != fmt.Sprint(i) {
			w.t.Fatalf("message %d: got %q, %v, %v", i, d.MessageId, ok, err)
		}
	}
}

// A message that was routed before the pause and reaches the queue late comes before those that are published after the pause, however short Settle is.
func TestMigrateInOrderWaitsForLateOne(t *testing.T) {
	for _, settle := range []time.Duration{time.Nanosecond, 500 * time.Millisecond, 12 * time.Second} {
		t.Run(settle.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, nil)
				w.bound("q", "x")
				var late *time.Timer
				ended := false
				_, err := w.admin.Migrate(t.Context(), wanted, "q", admin.MigrateOptions{KeepOrder: true, Settle: settle, Progress: func(p admin.MigrationProgress) {
					switch {
					case p.Now.Action == admin.ActionClose && late == nil:
						late = time.AfterFunc(900*time.Millisecond, func() { w.publishID("", "q", 0) })
					case p.Now.Action == admin.ActionEmpty && !ended:
						ended = true
						w.publishID("x", "", 1)
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				w.wantIDs("q", 2)
			})
		})
	}
}

// So do messages that reach the queue one by one, each while the one before it is being moved.
func TestMigrateInOrderWaitsForLateOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		w := newWard(t, nil)
		w.bound("q", "x")
		moved, late, ended := 0, 0, false
		_, err := w.admin.Migrate(t.Context(), wanted, "q", admin.MigrateOptions{KeepOrder: true, Progress: func(p admin.MigrationProgress) {
			switch {
			case p.Now.Action == admin.ActionClose && (late == 0 || p.Moved > moved) && late < n:
				moved = p.Moved
				w.publishID("", "q", late) // as if it was on its way since before the pause
				w.depth("q")               // the broker has it
				late++
			case p.Now.Action == admin.ActionEmpty && !ended:
				ended = true
				w.publishID("x", "", n)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if late != n || !ended {
			t.Fatalf("%d messages came late, want %d", late, n)
		}
		w.wantIDs("q", n+1)
	})
}

// hold publishes messages to a queue of which statistics are there already, has a consumer take them, and requeues them after a while.
func (w *ward) hold(queue string, n int, hold time.Duration) (wait func()) {
	w.t.Helper()
	w.declare(queue, nil)
	time.Sleep(17 * time.Second) // statistics of an empty queue are there
	for range n {
		w.publish(queue)
	}
	ch := w.channel()
	deliveries, err := ch.Consume(queue, "one", false, false, false, false, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for range n {
		<-deliveries
	}
	var holding sync.WaitGroup
	holding.Go(func() {
		time.Sleep(hold)
		if err := ch.Cancel("one", false); err != nil {
			w.t.Error(err)
		}
		if err := ch.Nack(0, true, true); err != nil {
			w.t.Error(err)
		}
	})
	return holding.Wait
}

// If a broker has no statistics at all, the migration waits and reports for what.
func TestMigrateWithoutStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, &lateStatistics{queue: "q", interval: time.Hour})
		w.declare("q", nil)
		w.publish("q")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute+100*time.Millisecond)
		defer cancel()
		_, err := w.admin.Migrate(ctx, wanted, "q", admin.MigrateOptions{})
		if err == nil || !strings.Contains(err.Error(), `the broker to show whether consumers hold messages of queue "q"`) {
			t.Errorf("got %v, want that it waits for the broker", err)
		}
		if got := w.depth(layouts.MigratingQueue("q")); got != 1 {
			t.Errorf("%d messages are kept, want 1", got)
		}
	})
}
