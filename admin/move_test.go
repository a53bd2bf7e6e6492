package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/layout"
)

// client opens a client of the ward's broker.
func (w *ward) client() *rehop.Client {
	w.t.Helper()
	c, err := rehop.Open(w.t.Context(), rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial,
		Exchanges: []rehop.Exchange{{Name: "order"}}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// call calls the management API.
func (w *ward) call(method, path, body string) string {
	w.t.Helper()
	request := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	request.RemoteAddr = "127.0.0.1:1" // guest may only log in from this machine
	request.SetBasicAuth("guest", "guest")
	answer := httptest.NewRecorder()
	w.api.ServeHTTP(answer, request)
	if answer.Code >= 300 {
		w.t.Fatalf("%s %s: got %d %s", method, path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// handled is when messages were handled, and how.
type handled struct {
	mu sync.Mutex
	at map[string]time.Time
	as map[string]string
}

func (h *handled) handler(answer func(d *rehop.Delivery) error) rehop.Handler {
	return rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		err := answer(d)
		if err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, again := h.at[d.ID]; again {
			return rehop.Permanent(fmt.Errorf("message %s was handled before", d.ID))
		}
		h.at[d.ID] = time.Now()
		h.as[d.ID] = fmt.Sprintf("%s %s attempt %d, kept %v", d.Exchange, d.Key, d.Attempt, d.Headers["kept"])
		return nil
	})
}

// all are the messages so far.
func (h *handled) all() (at map[string]time.Time, as map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.at), maps.Clone(h.as)
}

func newHandled() *handled {
	return &handled{at: make(map[string]time.Time), as: make(map[string]string)}
}

func subscribed(t *testing.T, c *rehop.Client, h rehop.Handler) *rehop.Subscription {
	t.Helper()
	s, err := c.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Exchange: "order", Keys: []string{"order.#"}, Retry: rehop.Steps(time.Hour, 3*time.Hour), Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, c *rehop.Client) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Messages of every kind move, and those that wait are due when they were due before, not earlier, and at most a unit of the cascade later.
func TestMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		began := time.Now()
		client := from.client()
		sub := subscribed(t, client, rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			switch {
			case strings.HasPrefix(d.ID, "fails"):
				return rehop.Permanent(errors.New("broken"))
			case strings.HasPrefix(d.ID, "waits"):
				return errors.New("not now")
			case strings.HasPrefix(d.ID, "postponed"):
				return rehop.Postpone(2*time.Hour+50*time.Millisecond, errors.New("not yet"))
			}
			return nil
		}))
		publish := func(m rehop.Message) {
			t.Helper()
			m.Exchange, m.Headers = "order", map[string]any{"kept": "yes"}
			if err := client.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		due := make(map[string]time.Time)
		for i := range 20 {
			publish(rehop.Message{Key: "order.fails", ID: fmt.Sprint("fails", i)})
			publish(rehop.Message{Key: "order.waits", ID: fmt.Sprint("waits", i)})
			publish(rehop.Message{Key: "order.postponed", ID: fmt.Sprint("postponed", i)})
			delay := 20*time.Minute + time.Duration(i)*7919*time.Millisecond
			publish(rehop.Message{Key: "order.later", ID: fmt.Sprint("later", i), Delay: delay})
			due[fmt.Sprint("later", i)] = time.Now().Add(delay)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		for i := range 20 {
			failed := began.Add(time.Duration(i) * time.Second)
			due[fmt.Sprint("waits", i)] = failed.Add(time.Hour)
			due[fmt.Sprint("postponed", i)] = failed.Add(2*time.Hour + 50*time.Millisecond)
		}
		if err := sub.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			publish(rehop.Message{Key: "order.now", ID: fmt.Sprint("now", i)})
		}
		closed(t, client)
		time.Sleep(18*time.Minute + 300*time.Millisecond)

		plan, err := from.admin.PlanMove(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil || len(plan.Refused) > 0 || len(plan.Declared) == 0 {
			t.Fatalf("got plan %v, %v", plan, err)
		}
		moved := time.Now()
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil {
			t.Fatalf("%v\n%s", err, balance)
		}
		if sum := balance.Sum(); sum.Moved != 100 || sum.Again != 0 || sum.Left != 0 || sum.Arrived != 40 || sum.Due != 60 {
			t.Errorf("got balance\n%s\nwant 100 moved, 40 arrived, 60 due", balance)
		}
		took := time.Since(moved)

		again, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil || again.Sum() != (admin.BalanceRow{}) {
			t.Errorf("a second move: got %v and\n%s\nwant nothing", err, again)
		}
		if plan, err := from.admin.PlanMove(t.Context(), to.admin, admin.MoveOptions{}); err != nil || len(plan.Declared) > 0 {
			t.Errorf("a second plan declares %v (%v), want nothing: definitions are equal", plan.Declared, err)
		}

		there := to.client()
		h := newHandled()
		subscribed(t, there, h.handler(func(*rehop.Delivery) error { return nil }))
		failed, err := to.admin.Failed(t.Context(), "orders", 100, admin.Filter{})
		if err != nil || len(failed) != 20 {
			t.Fatalf("got %d failed messages, %v, want 20", len(failed), err)
		}
		for i, m := range failed {
			if m.ID != fmt.Sprint("fails", i) || m.Exchange != "order" || m.Key != "order.fails" || m.Attempts != 1 || m.Error != "broken" || m.Queue != "orders" || m.Headers["kept"] != "yes" {
				t.Errorf("failed message %d: got %+v", i, m)
			}
		}
		time.Sleep(4 * time.Hour)
		at, as := h.all()
		if len(at) != 80 {
			t.Errorf("got %d messages handled, want 80", len(at))
		}
		for id, want := range due {
			if got := at[id]; got.Before(want) || got.After(want.Add(took+150*time.Millisecond)) {
				t.Errorf("message %s: got handled %v after it was due, want 0 to %v", id, got.Sub(want), took+150*time.Millisecond)
			}
		}
		for i := range 20 {
			for kind, attempt := range map[string]int{"now": 1, "waits": 2, "postponed": 1, "later": 1} {
				want := fmt.Sprintf("order order.%s attempt %d, kept yes", kind, attempt)
				if got := as[fmt.Sprint(kind, i)]; got != want {
					t.Errorf("message %s%d: got %q, want %q", kind, i, got, want)
				}
			}
		}
		closed(t, there)
		live, err := to.admin.Live(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range live.Exchanges {
			if strings.HasPrefix(x.Name, "rehop.carry.") {
				t.Errorf("exchange %q is left on the target", x.Name)
			}
		}
		for _, q := range live.Queues {
			if q.Name != "orders.failed" && q.Messages() > 0 {
				t.Errorf("queue %q of the target has %d messages at the end, want none", q.Name, q.Messages())
			}
		}
	})
}

// Only the chosen queues move, with their failed messages and those that wait.
func TestMoveSomeQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		client := from.client()
		for _, queue := range []string{"orders", "mails"} {
			_, err := client.Subscribe(t.Context(), rehop.Subscriber{Queue: queue, Exchange: "order", Retry: rehop.Steps(time.Hour), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				if d.Key == "fails" {
					return rehop.Permanent(errors.New("broken"))
				}
				return errors.New("not now")
			})})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			for _, key := range []string{"waits", "fails"} {
				if err := client.Publish(t.Context(), rehop.Message{Exchange: "order", Key: key, ID: fmt.Sprint(key, i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		closed(t, client)
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Queues: []string{"orders"}})
		if err != nil {
			t.Fatal(err)
		}
		if sum := balance.Sum(); sum.Moved != 20 || sum.Due != 10 || sum.Arrived != 10 || sum.Left != 0 {
			t.Errorf("got balance\n%s\nwant 20 moved, 10 due", balance)
		}
		live, err := to.admin.Live(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, exists := live.Queue("mails"); exists {
			t.Error("queue mails was moved, too")
		}
		if left, err := from.admin.Failed(t.Context(), "mails", 100, admin.Filter{}); err != nil || len(left) != 10 {
			t.Errorf("failed messages of mails: got %d, %v, want 10", len(left), err)
		}
		if _, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Queues: []string{"oders"}}); !errors.Is(err, admin.ErrNoQueue) {
			t.Errorf("a queue that does not exist: got %v, want ErrNoQueue", err)
		}
		balance, err = from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Except: []string{"orders"}})
		if sum := balance.Sum(); err != nil || sum.Moved != 20 || sum.Left != 0 {
			t.Errorf("all others: got %v and\n%s\nwant 20 moved", err, balance)
		}
	})
}

// What the target would refuse is reported before anything is declared or moved.
func TestMoveRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		declare := func(name string, durable bool, args amqp.Table) {
			t.Helper()
			if _, err := from.ch.QueueDeclare(name, durable, false, false, false, args); err != nil {
				t.Fatal(err)
			}
		}
		declare("plain", true, nil)
		declare("alone", true, amqp.Table{"x-single-active-consumer": true})
		if _, err := from.ch.Consume("alone", "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		declare("rehop.migrating.half", true, nil)
		plan, err := from.admin.PlanMove(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for queue, want := range map[string]string{"alone": "single active consumer", "rehop.migrating.half": "being migrated"} {
			if !slices.ContainsFunc(plan.Refused, func(r admin.Refusal) bool { return r.Object.Name == queue && strings.Contains(r.Reason, want) }) {
				t.Errorf("queue %q: got refusals %v, want one with %q", queue, plan.Refused, want)
			}
		}
		if _, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{}); !errors.Is(err, admin.ErrRefused) {
			t.Errorf("got %v, want ErrRefused", err)
		}
		if live, err := to.admin.Live(t.Context()); err != nil || len(live.Queues) != 0 {
			t.Errorf("the target has %v (%v), want no queues", live.Queues, err)
		}
		if _, err := from.admin.Move(t.Context(), from.admin, admin.MoveOptions{Queues: []string{"plain"}}); !errors.Is(err, admin.ErrSamePlace) {
			t.Errorf("onto itself: got %v, want ErrSamePlace", err)
		}
	})
}

// A target that refuses messages ends the move after the timeout, and the messages stay on the source.
func TestMoveToAFullQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		for _, side := range []struct {
			w    *ward
			args amqp.Table
		}{{from, nil}, {to, amqp.Table{"x-max-length": 10, "x-overflow": "reject-publish"}}} {
			if _, err := side.w.ch.QueueDeclare("q", true, false, false, false, side.args); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 30 {
			if err := from.ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Timeout: 10 * time.Second})
		if !errors.Is(err, rehop.ErrRefused) || !strings.Contains(err.Error(), "full") {
			t.Errorf("got %v, want that a queue is full", err)
		}
		if took := time.Since(began); took < 10*time.Second || took > time.Minute {
			t.Errorf("it took %v, want about 10 s", took)
		}
		sum := balance.Sum()
		there, err := to.ch.QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil || sum.Arrived != there.Messages || sum.Moved+sum.Left != 30 || sum.Again != 0 || sum.Left == 0 {
			t.Errorf("got balance\n%s\nwith %d messages on the target (%v), want 30 moved and left", balance, there.Messages, err)
		}
		if _, err := to.ch.QueuePurge("q", false); err != nil {
			t.Fatal(err)
		}
	})
}

// Users move with their passwords and permissions, only if that is asked for.
func TestMoveUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		from.call(http.MethodPut, "/api/users/ann", `{"password":"secret","tags":"monitoring"}`)
		from.call(http.MethodPut, "/api/permissions/%2F/ann", `{"configure":"^a","write":"^b","read":"^c"}`)
		from.call(http.MethodPut, "/api/users/bob", `{"password":"secret","tags":""}`) // has no permissions here
		if _, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := to.call(http.MethodGet, "/api/users", ""); strings.Contains(got, "ann") {
			t.Errorf("got users %s, want no ann: it was not asked for", got)
		}
		for range 2 {
			if _, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Users: true}); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/api/users/ann", "/api/permissions/%2F/ann"} {
				if got, want := to.call(http.MethodGet, path, ""), from.call(http.MethodGet, path, ""); got != want {
					t.Errorf("%s: got %s, want %s", path, got, want)
				}
			}
		}
		if got := to.call(http.MethodGet, "/api/users", ""); strings.Contains(got, "bob") {
			t.Errorf("got users %s, want no bob", got)
		}
	})
}

// A queue that is handled in order by key moves with its held queue, and its messages are handled in their order on the target.
func TestMoveInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		ordered := func(c *rehop.Client, partitions int, h rehop.Handler) *rehop.Subscription {
			t.Helper()
			s, err := c.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Exchange: "order", Retry: rehop.Steps(time.Hour), OrderBy: rehop.OrderKey, Partitions: partitions, Handler: h})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		client := from.client()
		sub := ordered(client, 2, rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if strings.HasPrefix(d.OrderKey, "bad") {
				return errors.New("not now")
			}
			return nil
		}))
		const keys, each = 6, 8
		publish := func(i int) {
			t.Helper()
			for k := range keys {
				for _, kind := range []string{"bad", "good"} {
					key := fmt.Sprint(kind, k)
					if err := client.Publish(t.Context(), rehop.Message{Exchange: "order", ID: fmt.Sprint(key, "-", i), OrderKey: key}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for i := range each / 2 {
			publish(i)
		}
		time.Sleep(10 * time.Second) // messages behind failed ones are moved to the held queue
		if _, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{}); !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "stop the") {
			t.Errorf("with a subscriber on the source: got %v, want ErrRefused and what to stop", err)
		}
		if err := sub.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range each / 2 {
			publish(each/2 + i)
		}
		closed(t, client)
		time.Sleep(5 * time.Minute)
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil || balance.Left() > 0 {
			t.Fatalf("got %v and\n%s", err, balance)
		}
		there := to.client()
		var mu sync.Mutex
		got := make(map[string][]string)
		ordered(there, 2, rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got[d.OrderKey] = append(got[d.OrderKey], d.ID)
			return nil
		}))
		time.Sleep(2*time.Hour + 7*time.Second) // not when a session of 10 minutes ends: there is no consumer for a moment
		mu.Lock()
		defer mu.Unlock()
		for k := range keys {
			for kind, first := range map[string]int{"bad": 0, "good": each / 2} {
				key := fmt.Sprint(kind, k)
				var want []string
				for i := first; i < each; i++ {
					want = append(want, fmt.Sprint(key, "-", i))
				}
				if !slices.Equal(got[key], want) {
					t.Errorf("key %s: got %v, want %v", key, got[key], want)
				}
			}
		}
		// Back, while the target is in use.
		if _, err := to.admin.Move(t.Context(), from.admin, admin.MoveOptions{}); !errors.Is(err, admin.ErrRefused) {
			t.Errorf("back, with a subscriber: got %v, want ErrRefused", err)
		}
		closed(t, there)
	})
}

// While an alarm blocks the target, the move waits, and ends after the timeout with the reason. Nothing is lost.
func TestMoveToABlockedBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		control, err := brokertest.Open(to.server)
		if err != nil {
			t.Fatal(err)
		}
		from.declare("q", nil)
		for range 30 {
			from.publish("q")
		}
		control.Block(true)
		moved := make(chan error, 1)
		go func() {
			_, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Timeout: 10 * time.Second})
			moved <- err
		}()
		// A process that is killed now has no message that its queue could count as delivered.
		for range 9 {
			time.Sleep(time.Second)
			if n := from.depth("q"); n != 30 {
				t.Fatalf("while the target accepts nothing, got %d messages ready on the source, want all 30", n)
			}
		}
		if err := <-moved; !errors.Is(err, rehop.ErrBlocked) {
			t.Errorf("got %v, want ErrBlocked", err)
		}
		if n := from.depth("q"); n != 30 {
			t.Errorf("got %d messages on the source, want 30", n)
		}
		control.Block(false)
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if sum := balance.Sum(); err != nil || sum.Moved != 30 || sum.Left != 0 {
			t.Errorf("afterwards: got %v and\n%s\nwant 30 moved", err, balance)
		}
		// The first batch was on its way before the broker reported that it is blocked, and comes, too.
		if n := to.depth("q"); n < 30 || n > 60 {
			t.Errorf("got %d messages on the target, want 30, or some twice", n)
		}
	})
}

// With QueueType, rehop's classic queues become those that clients declare by default, also the delay queues.
func TestMoveToQuorumQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		open := func(w *ward, kind layout.QueueType) *rehop.Client {
			t.Helper()
			c, err := rehop.Open(t.Context(), rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial, QueueType: kind,
				Exchanges: []rehop.Exchange{{Name: "order"}}, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		subscribe := func(c *rehop.Client, kind layout.QueueType, h rehop.Handler) {
			t.Helper()
			if _, err := c.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Exchange: "order", QueueType: kind, Retry: rehop.Steps(time.Hour), Handler: h}); err != nil {
				t.Fatal(err)
			}
		}
		client := open(from, layout.Classic)
		subscribe(client, layout.Classic, rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("not now") }))
		for _, delay := range []time.Duration{0, 30 * time.Minute} {
			if err := client.Publish(t.Context(), rehop.Message{Exchange: "order", ID: delay.String(), Delay: delay}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		closed(t, client)
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{QueueType: layout.Quorum})
		if err != nil || balance.Sum().Due != 2 {
			t.Fatalf("got %v, want 2 due\n%s", err, balance)
		}
		there, h := open(to, ""), newHandled()
		subscribe(there, "", h.handler(func(*rehop.Delivery) error { return nil }))
		time.Sleep(2 * time.Hour)
		if _, as := h.all(); len(as) != 2 {
			t.Errorf("got %v handled, want both", as)
		}
		if err := there.Publish(t.Context(), rehop.Message{Exchange: "order", ID: "new", Delay: 45 * time.Minute}); err != nil {
			t.Error(err)
		}
		closed(t, there)
	})
}
