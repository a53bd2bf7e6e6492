package sqlbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

func poisonCases() []Case {
	return []Case{
		{Name: "ConfirmedAndSetAside", Run: func(t *testing.T, b *Bench) {
			// While a relay waits for a confirm another one has its lease, and sets the message aside. Then the confirm comes.
			b.Migrate()
			got := b.Collect("q")
			held := newHolder(b.Client)
			relay := b.Relay()
			relay.Client = held
			b.Start(relay)
			b.Put(To("q", "1"))
			Receive(b, held.confirmed, "confirm")
			b.Exec("UPDATE rehop_outbox SET state = 3, error = 'no route'")
			close(held.release)
			Equal(b, "message", Receive(b, got, "message").ID, "1")
			b.Eventually("the message is not in the outbox any more", func() bool { return b.Rows() == 0 })
		}},
		{Name: "TooLarge", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.Client = told.hooks(), b.OpenClient(func(c *rehop.Config) { c.MaxBody = 1000 })
			b.Start(relay)
			large := To("q", "large")
			large.Body = make([]byte, 1001)
			b.Put(To("q", "1"), large, To("q", "2"))
			for range 2 {
				if d := Receive(b, got, "message"); d.ID == "large" {
					t.Error("got the message that is too large")
				}
			}
			aside := Receive(b, told.aside, "message that was set aside")
			Equal(b, "set aside", aside.MessageID, "large")
			if !errors.Is(aside.Err, rehop.ErrTooLarge) {
				t.Errorf("reason: got %v, want ErrTooLarge", aside.Err)
			}
			list, err := b.Inspector().List(b.Context(), outbox.StateSetAside, outbox.RowID{}, 10)
			b.Must(err)
			summaries, err := b.Inspector().Summaries(b.Context(), outbox.StateSetAside, outbox.RowID{}, 10)
			b.Must(err)
			if len(summaries) != 1 || summaries[0].Row != aside.Row || summaries[0].Message.ID != "large" || summaries[0].Message.Body != nil || summaries[0].Size < 1001 {
				t.Errorf("summaries: got %+v, want the message with its size, and without its body", summaries)
			}
			if len(list) != 1 || list[0].Row != aside.Row || list[0].Attempts != 1 || !strings.Contains(list[0].Error, "1001 bytes") || len(list[0].Message.Body) != 1001 {
				t.Fatalf("list: got %+v, want the message with its body and its error", list)
			}
			n, err := b.Inspector().Discard(b.Context(), aside.Row)
			b.Must(err)
			Equal(b, "dropped", n, 1)
			Equal(b, "rows", b.Rows(), 0)
		}},
		{Name: "NoExchange", Run: func(t *testing.T, b *Bench) {
			noRoute(t, b, rehop.Message{ID: "poison", Exchange: "gone", Key: "k"}, "gone")
		}},
		{Name: "NoQueue", Run: func(t *testing.T, b *Bench) {
			noRoute(t, b, rehop.Message{ID: "poison", Key: "gone"}, "")
		}},
		{Name: "Refused", Faulty: true, Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Queue("full")
			got := b.Collect("q")
			b.Faults.Refuse(func(_, key string) bool { return key == "full" })
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.Tries = told.hooks(), 2
			b.Start(relay)
			b.Put(To("full", "1"), To("full", "2"))
			b.Eventually("refused more often than an unroutable one would be tried", func() bool { return told.totals().Retry > 6 })
			b.Put(To("q", "other"))
			Equal(b, "message", Receive(b, got, "message for another queue").ID, "other")
			b.Faults.Refuse(nil)
			b.Faults.AwaitMessages("full", 2)
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
			Equal(b, "set aside", told.totals().SetAside, 0)
		}},
		{Name: "NotConfirmed", Faulty: true, Run: func(t *testing.T, b *Bench) {
			// The broker is there and does not answer: it is asked again later, and others are not delayed forever.
			b.Migrate()
			b.Queue("q")
			b.Faults.HoldConfirms()
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.Timeout = told.hooks(), 100*time.Millisecond
			b.Start(relay)
			b.Put(To("q", "1"))
			b.Eventually("it waits for its retry", func() bool { return told.totals().Retry > 0 })
			Equal(b, "rows", b.Rows(), 1)
			b.Faults.ReleaseConfirms()
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
			if n := len(b.Faults.Messages("q")); n < 1 || n > 1+told.totals().Retry {
				t.Errorf("copies: got %d, want at least one and at most one more than the %d tries that were given up", n, told.totals().Retry)
			}
		}},
		{Name: "Unreadable", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Put(To("q", "1"), To("q", "2"), To("q", "3"))
			b.Exec("UPDATE rehop_outbox SET headers = '{' WHERE message_id = '1'")
			b.Exec("UPDATE rehop_outbox SET properties = '[]' WHERE message_id = '2'")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks = told.hooks()
			b.Start(relay)
			Equal(b, "message", Receive(b, got, "message").ID, "3")
			Receive(b, told.aside, "message that was set aside")
			Receive(b, told.aside, "message that was set aside")
			list, err := b.Inspector().List(b.Context(), outbox.StateSetAside, outbox.RowID{}, 10)
			b.Must(err)
			if len(list) != 2 || list[0].Message.ID != "1" || list[1].Message.ID != "2" || list[0].Error == "" {
				t.Errorf("list: got %+v, want both with what can be read of them", list)
			}
		}},
		{Name: "List", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			began := time.Now()
			for i := range 7 {
				b.Put(To("q", fmt.Sprint(i)))
			}
			var ids []string
			var first outbox.RowID
			for after := first; ; {
				page, err := b.Inspector().List(b.Context(), outbox.StateReady, after, 3)
				b.Must(err)
				if len(page) == 0 {
					break
				}
				for _, e := range page {
					ids = append(ids, e.Message.ID)
					if e.Created.Before(began.Add(-time.Minute)) || time.Until(e.Created) > time.Minute {
						t.Errorf("created: got %v, want now", e.Created)
					}
				}
				if first == (outbox.RowID{}) {
					first = page[0].Row
				}
				after = page[len(page)-1].Row
			}
			Equal(b, "ids by pages of three", strings.Join(ids, " "), "0 1 2 3 4 5 6")
			if _, err := b.Inspector().List(b.Context(), "lost", outbox.RowID{}, 1); err == nil {
				t.Error("list of an unknown state: got no error")
			}
			// What is ready can be neither dropped nor retried.
			for _, change := range []func() (int, error){
				func() (int, error) { return b.Inspector().Discard(b.Context(), first) },
				func() (int, error) { return b.Inspector().Retry(b.Context(), first) },
				func() (int, error) { return b.Inspector().Republish(b.Context(), first) },
				func() (int, error) { return b.Inspector().Retry(b.Context()) },
			} {
				n, err := change()
				b.Must(err)
				Equal(b, "changed", n, 0)
			}
			Equal(b, "rows", b.Rows(), 7)
		}},
	}
}

// noRoute: a message without a route is tried some times and set aside, does not hold up others, and can be published when the cause
// is fixed.
func noRoute(t *testing.T, b *Bench, poison rehop.Message, exchange string) {
	b.Migrate()
	got := b.Collect("q")
	told := newRecorder()
	relay := b.Relay()
	relay.Hooks, relay.Tries = told.hooks(), 3
	b.Start(relay)
	b.Put(poison, To("q", "good"))
	Equal(b, "message", Receive(b, got, "message").ID, "good")
	aside := Receive(b, told.aside, "message that was set aside")
	if aside.MessageID != "poison" || !errors.Is(aside.Err, rehop.ErrUnroutable) {
		t.Errorf("set aside: got %+v, want the message without a route", aside)
	}
	list, err := b.Inspector().List(b.Context(), outbox.StateSetAside, outbox.RowID{}, 10)
	b.Must(err)
	if len(list) != 1 || list[0].Attempts != 3 {
		t.Errorf("set aside: got %+v, want the message after three tries", list)
	}
	if exchange == "" {
		b.Queue("gone")
	} else {
		b.Queue("gone", exchange)
	}
	n, err := b.Inspector().Retry(b.Context(), aside.Row)
	b.Must(err)
	Equal(b, "retried", n, 1)
	Equal(b, "message", Receive(b, b.Collect("gone"), "message that had no route").ID, "poison")
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
}
