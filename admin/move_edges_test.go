package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
)

// Two moves from the same virtual host at once: the second waits for the first, or is refused. Together they move each message once.
func TestTwoMovesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		from.declare("q", nil)
		const messages = 2000
		for range messages {
			from.publish("q")
		}
		second, err := admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: from.server.Dial,
			Management: "http://guest:guest@embedded", HTTP: &http.Client{Transport: from}})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		var running sync.WaitGroup
		sums := make([]admin.BalanceRow, 2)
		for i, a := range []*admin.Admin{from.admin, second} {
			running.Go(func() {
				balance, err := a.Move(t.Context(), to.admin, admin.MoveOptions{})
				if err != nil && !errors.Is(err, admin.ErrBusy) {
					t.Errorf("got %v, want success or ErrBusy", err)
				}
				sums[i] = balance.Sum()
			})
		}
		running.Wait()
		if moved := sums[0].Moved + sums[1].Moved; moved != messages || to.depth("q") != messages {
			t.Errorf("got %d moved and %d on the target, want %d", moved, to.depth("q"), messages)
		}
	})
}

// A message keeps its priority and headers of all types. Temporary queues and streams are not moved: the plan notes or refuses them.
func TestMoveKeepsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		from.declare("q", amqp.Table{"x-max-priority": 5})
		headers := amqp.Table{"bool": true, "byte": byte(200), "int8": int8(-5), "int16": int16(-300), "int32": int32(70_000), "int64": int64(1) << 40,
			"float32": float32(0.5), "float64": 0.1, "decimal": amqp.Decimal{Scale: 2, Value: 12345}, "text": "ü", "bytes": []byte{0, 255},
			"time": time.Unix(1_700_000_000, 0), "nil": nil, "list": []any{int32(1), "two", nil}, "table": amqp.Table{"deep": amqp.Table{"er": int16(1)}}}
		for priority := range uint8(4) {
			if err := from.ch.PublishWithContext(t.Context(), "", "q", true, false, amqp.Publishing{Headers: headers, Priority: priority, MessageId: string('a' + rune(priority)),
				ReplyTo: "r", CorrelationId: "c", UserId: "guest", ContentEncoding: "gzip", DeliveryMode: amqp.Transient}); err != nil {
				t.Fatal(err)
			}
		}
		for name, kind := range map[string][2]bool{"temporary": {true, false}, "exclusive": {false, true}} {
			if _, err := from.ch.QueueDeclare(name, kind[0], kind[0], kind[1], false, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		plan, err := from.admin.PlanMove(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil || len(plan.Refused) > 0 || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], `queue "temporary" is temporary`) {
			t.Fatalf("got plan %+v, %v, want a note on the temporary queue", plan, err)
		}
		if balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{}); err != nil || balance.Sum().Moved != 4 {
			t.Fatalf("got %v and\n%s\nwant 4 moved", err, balance)
		}
		for _, want := range []string{"d", "c", "b", "a"} { // the highest priority first
			d, ok, err := to.ch.Get("q", true)
			if err != nil || !ok || d.MessageId != want {
				t.Fatalf("got message %q, %v, %v, want %q", d.MessageId, ok, err, want)
			}
			for name, value := range headers {
				if got := d.Headers[name]; !reflect.DeepEqual(got, value) {
					t.Errorf("message %s, header %s: got %T %v, want %T %v", want, name, got, got, value, value)
				}
			}
			if d.ReplyTo != "r" || d.CorrelationId != "c" || d.ContentEncoding != "gzip" || d.DeliveryMode != amqp.Transient {
				t.Errorf("message %s: got %+v, want all properties", want, d)
			}
		}
	})
}

// A message that is larger than the target accepts ends the move with its reason at once, and stays on the source; the target has what came before.
func TestMoveOfALargeMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := newWard(t, nil)
		server := &broker.Server{MaxMessage: 1000, Logger: slog.New(slog.DiscardHandler)}
		api, err := mgmt.Handler(server)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		to := &ward{t: t, server: server, api: api}
		if to.admin, err = admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: server.Dial,
			Management: "http://guest:guest@embedded", HTTP: &http.Client{Transport: to}}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(to.admin.Close)
		to.ch = to.channel()
		from.declare("q", nil)
		for _, size := range []int{10, 2000, 10} {
			if err := from.ch.PublishWithContext(context.Background(), "", "q", true, false, amqp.Publishing{Body: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Timeout: 10 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "larger") && !strings.Contains(err.Error(), "large") {
			t.Errorf("got %v, want that a message is too large", err)
		}
		if n, there := from.depth("q"), to.depth("q"); n == 0 || n+there < 3 {
			t.Errorf("got %d messages on the source and %d on the target, want all 3, and the large one on the source\n%s", n, there, balance)
		}
	})
}

// A queue that a consumer has exclusively cannot be read: the plan refuses it. If the consumer comes later, the other queues are moved.
func TestMoveAroundAnExclusiveConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		for _, queue := range []string{"a", "b", "c"} {
			from.fill(queue, nil, 3)
		}
		consume := func() error {
			if err := from.ch.Qos(1, 0, false); err != nil {
				return err
			}
			_, err := from.ch.Consume("b", "mine", false, true, false, false, nil)
			return err
		}
		coming := false
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Timeout: 5 * time.Second, Progress: func(p admin.MoveProgress) {
			if p.Queue == "a" && !coming {
				coming = true
				if err := consume(); err != nil {
					t.Error(err)
				}
			}
		}})
		if err == nil || !strings.Contains(err.Error(), `queue "b"`) || !strings.Contains(err.Error(), "stop the consumer that has it exclusively") {
			t.Errorf("got %v, want an error that names queue b and what to stop", err)
		}
		if a, b, c := to.depth("a"), to.depth("b"), to.depth("c"); a != 3 || b != 0 || c != 3 {
			t.Errorf("the target has %d, %d and %d messages, want 3, 0 and 3\n%s", a, b, c, balance)
		}
		plan, err := from.admin.PlanMove(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil || len(plan.Refused) != 1 || !strings.Contains(plan.Refused[0].Reason, `consumer "mine"`) {
			t.Errorf("got plan %+v, %v, want queue b refused because of its consumer", plan, err)
		}
	})
}

// TestMoveFromASlowBroker: a management API that takes its time makes a move slow, and does not fail it.
func TestMoveFromASlowBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		const queues = 20
		for i := range queues {
			from.fill(fmt.Sprintf("q%d", i), nil, 3)
		}
		from.slow = time.Second
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if sum := balance.Sum(); err != nil || sum.Moved != 3*queues || sum.Left != 0 {
			t.Errorf("got %v and\n%s\nwant %d messages moved", err, balance, 3*queues)
		}
	})
}
