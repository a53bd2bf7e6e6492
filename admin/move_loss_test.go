package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

// TestMoveWhileHandlersRun: a message that a handler of the source has when the move begins, and that then waits in a queue which did not
// exist before, is moved, too.
func TestMoveWhileHandlersRun(t *testing.T) {
	for name, queues := range map[string][]string{"All": nil, "SomeQueues": {"orders"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				from, to := newWard(t, nil), newWard(t, nil)
				client := from.client()
				defer closed(t, client)
				began := make(chan struct{})
				subscribed(t, client, rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					close(began)
					time.Sleep(8 * time.Second)
					return rehop.RetryAfter(777*time.Second, errors.New("not now"))
				}))
				if err := client.Publish(t.Context(), rehop.Message{Exchange: "order", Key: "order.new", ID: "m"}); err != nil {
					t.Fatal(err)
				}
				<-began
				balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Queues: queues})
				if err != nil {
					t.Fatal(err)
				}
				if sum := balance.Sum(); sum.Moved != 1 || sum.Due != 1 || sum.Left != 0 {
					t.Errorf("got balance\n%s\nwant the message that waits", balance)
				}
				live, err := from.admin.Live(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, q := range live.Queues {
					if q.Messages() > 0 {
						t.Errorf("queue %q of the source has %d messages, want none", q.Name, q.Messages())
					}
				}
			})
		})
	}
}

// However short Settle is, and whenever the source writes down and collects its statistics: the source is not empty as long as a consumer has messages.
func TestMoveWithLateStatistics(t *testing.T) {
	const n = 100
	for _, behind := range []time.Duration{0, time.Second, 4900 * time.Millisecond} {
		for _, hold := range []time.Duration{0, 400 * time.Millisecond, 3 * time.Second, 9 * time.Second, 14 * time.Second} {
			t.Run(fmt.Sprintf("behind %v held %v", behind, hold), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					from, to := newWard(t, &lateStatistics{queue: "q", interval: 5 * time.Second, behind: behind}), newWard(t, nil)
					wait := from.hold("q", n, hold)
					balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Settle: time.Second})
					if err != nil {
						t.Fatal(err)
					}
					wait()
					if sum := balance.Sum(); sum.Moved != n || sum.Left != 0 || to.depth("q") != n {
						t.Errorf("got balance\n%s\nwant all %d messages moved", balance, n)
					}
				})
			})
		}
	}
}

// A move of 100 queues, for which the broker needs most of a minute to answer, ends as others do.
func TestMoveOfManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, &lateStatistics{queue: "q", interval: 5 * time.Second}), newWard(t, nil)
		from.declare("q", nil)
		for i := range 99 {
			from.declare(fmt.Sprint("other.", i), nil)
		}
		time.Sleep(17 * time.Second)
		from.publish("q")
		from.slow = 450 * time.Millisecond
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if sum := balance.Sum(); sum.Moved != 1 || sum.Left != 0 {
			t.Errorf("got balance\n%s\nwant 1 message moved", balance)
		}
	})
}

// If the source has no statistics at all, all that is ready is moved, and the move reports that consumers may have others.
func TestMoveWithoutStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, &lateStatistics{queue: "q", interval: time.Hour}), newWard(t, nil)
		from.declare("q", nil)
		from.publish("q")
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if err == nil || !strings.Contains(err.Error(), `shows no new figures of queue "q" for 2m0s: consumers of the source may have messages of it`) {
			t.Errorf("got %v, want that nobody knows", err)
		}
		if sum := balance.Sum(); sum.Moved != 1 || to.depth("q") != 1 {
			t.Errorf("got balance\n%s\nwant 1 message moved", balance)
		}
	})
}

// fill declares a queue and publishes messages to it.
func (w *ward) fill(queue string, args amqp.Table, n int) {
	w.t.Helper()
	if _, err := w.ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		w.t.Fatal(err)
	}
	for i := range n {
		if err := w.ch.PublishWithContext(w.t.Context(), "", queue, false, false, amqp.Publishing{MessageId: fmt.Sprint(queue, i), Body: []byte("body")}); err != nil {
			w.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// TestMoveWhereMessagesVanish: queues of the target that would remove messages are refused before anything is moved.
func TestMoveWhereMessagesVanish(t *testing.T) {
	policy := func(definition string) func(t *testing.T, to *ward) {
		return func(_ *testing.T, to *ward) {
			to.call(http.MethodPut, "/api/policies/%2F/small", `{"pattern":"^q$","definition":`+definition+`,"apply-to":"queues"}`)
		}
	}
	queue := func(args amqp.Table, n int) func(t *testing.T, to *ward) {
		return func(_ *testing.T, to *ward) { to.fill("q", args, n) }
	}
	for name, c := range map[string]struct {
		source amqp.Table
		target func(t *testing.T, to *ward)
		want   string // "": it is moved
	}{
		"PolicyLength":      {nil, policy(`{"max-length":10}`), `policy "small"`},
		"PolicyBytes":       {nil, policy(`{"max-length-bytes":10}`), "max-length-bytes is 10"},
		"PolicyRejects":     {nil, policy(`{"max-length":100,"overflow":"reject-publish"}`), ""},
		"PolicyLarge":       {nil, policy(`{"max-length":30}`), ""},
		"PolicyTTL":         {nil, policy(`{"message-ttl":1000}`), "messages that are older are removed"},
		"PolicyTTLOfBoth":   {amqp.Table{"x-message-ttl": 3600000}, policy(`{"message-ttl":3600000}`), ""},
		"PolicyExpires":     {nil, policy(`{"expires":1000}`), "the queue is deleted"},
		"ArgumentLength":    {nil, queue(amqp.Table{"x-max-length": 10}, 0), "max-length is 10"},
		"ArgumentNotEnough": {nil, queue(amqp.Table{"x-max-length": 40}, 11), "41 messages are to be in it"},
		"ArgumentFits":      {nil, queue(amqp.Table{"x-max-length": 41}, 11), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				from, to := newWard(t, nil), newWard(t, nil)
				from.fill("q", c.source, 30)
				c.target(t, to)
				balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
				if c.want == "" {
					if sum := balance.Sum(); err != nil || sum.Arrived != 30 || sum.Left != 0 {
						t.Errorf("got %v and\n%s\nwant 30 moved", err, balance)
					}
					return
				}
				if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want ErrRefused with %q", err, c.want)
				}
				if q, err := from.ch.QueueDeclarePassive("q", true, false, false, false, nil); err != nil || q.Messages != 30 {
					t.Errorf("the source has %d messages (%v), want all 30", q.Messages, err)
				}
			})
		})
	}
}

// TestMoveAroundAMessage: a message that the target does not take stays, and the other queues are moved.
func TestMoveAroundAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		from.fill("a", nil, 0)
		from.fill("b", nil, 3)
		large := amqp.Table{"large": string(bytes.Repeat([]byte("x"), 130_900))}
		if err := from.ch.PublishWithContext(t.Context(), "", "a", false, false, amqp.Publishing{MessageId: "large", Headers: large}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{})
		if err == nil || !strings.Contains(err.Error(), `queue "a"`) {
			t.Errorf("got %v, want an error that names queue a", err)
		}
		if sum := balance.Sum(); sum.Moved != 3 || sum.Left != 1 {
			t.Errorf("got balance\n%s\nwant queue b moved, and the message of a left", balance)
		}
	})
}

// TestMoveLeavesGuest: the default user, whose password everybody knows, does not come to a target that has removed it.
func TestMoveLeavesGuest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		plan, err := from.admin.PlanMove(t.Context(), to.admin, admin.MoveOptions{Users: true})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(plan.Users, "guest") || !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, `user "guest" is not moved`) }) {
			t.Errorf("got users %v and notes %q, want that guest is not moved", plan.Users, plan.Notes)
		}
	})
}

// TestMoveAfterAKilledOne: what a killed move has left on the target is removed, also if its queue is empty by now.
func TestMoveAfterAKilledOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		from.fill("q", nil, 0)
		to.fill("q", nil, 0)
		if err := to.ch.ExchangeDeclare("rehop.carry.q", "fanout", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{}); err != nil {
			t.Fatal(err)
		}
		live, err := to.admin.Live(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, left := live.Exchange("rehop.carry.q"); left {
			t.Error("the exchange of the killed move is still there")
		}
	})
}
