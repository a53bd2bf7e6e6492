package sqlbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

// standstillCases: what stands still holds up nothing else.
func standstillCases() []Case {
	return []Case{
		{Name: "NoConfirm", Faulty: true, Run: func(t *testing.T, b *Bench) {
			unconfirmed(t, b, 1, func(m rehop.Message) rehop.Message { return m })
		}},
		{Name: "NoConfirmInOrder", Faulty: true, Run: func(t *testing.T, b *Bench) {
			unconfirmed(t, b, 1, func(m rehop.Message) rehop.Message {
				m.OrderKey = m.ID
				return m
			})
		}},
		{Name: "NoConfirmForMany", Faulty: true, Run: func(t *testing.T, b *Bench) {
			unconfirmed(t, b, 500, func(m rehop.Message) rehop.Message { return m })
		}},
		{Name: "NextOfTheKey", Faulty: true, Run: nextOfTheKey},
		{Name: "ManyKeysRefused", Run: manyKeysRefused},
		{Name: "LockedRow", Not: oneWriter, Run: func(t *testing.T, b *Bench) { lockedRow(t, b, 0) }},
		{Name: "LockedRowKept", Not: oneWriter, Run: func(t *testing.T, b *Bench) { lockedRow(t, b, time.Hour) }},
		{Name: "NoBody", Run: func(t *testing.T, b *Bench) {
			// All that there is of it is in its headers, which are too large to be read along.
			b.Migrate()
			bare := To("q", "bare")
			bare.Body, bare.Headers = nil, map[string]any{"h": strings.Repeat("x", 10_000)}
			b.Put(bare)
			list, err := b.Inspector().List(b.Context(), outbox.StateReady, outbox.RowID{}, 10)
			b.Must(err)
			if len(list) != 1 || list[0].Message.ID != "bare" || len(list[0].Message.Headers) != 1 {
				t.Errorf("list: got %+v, want the message with its header", list)
			}
			got := b.Collect("q")
			b.Start(b.Relay())
			d := Receive(b, got, "message without a body")
			if d.ID != "bare" || len(d.Body) != 0 || d.Headers["h"] != bare.Headers["h"] {
				t.Errorf("got message %s with %d bytes and %d headers, want bare with its header", d.ID, len(d.Body), len(d.Headers))
			}
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
		}},
		{Name: "Serializable", Not: []dialect.Dialect{dialect.SQLite, dialect.MySQL}, Run: serializable},
	}
}

// unconfirmed: messages that get no confirm do not hold up those to another queue, neither at their first try nor at the next, when the
// client still waits for the first.
func unconfirmed(t *testing.T, b *Bench, n int, make func(rehop.Message) rehop.Message) {
	b.Migrate()
	b.Queue("stuck")
	got := b.Collect("q")
	b.Faults.HoldConfirmsOf(func(_, key string) bool { return key == "stuck" })
	relay := b.Relay()
	relay.Timeout, relay.DrainTimeout = time.Hour, 50*time.Millisecond // nobody waits for the hour
	stop := b.Start(relay)
	pass := func(name string) {
		var healthy []rehop.Message
		for j := range 32 {
			healthy = append(healthy, make(To("q", fmt.Sprint(name, " ", j))))
		}
		b.Put(healthy...)
		for range healthy {
			Receive(b, got, "message to a healthy queue")
		}
	}
	pass("before")
	var all []rehop.Message
	for i := range n {
		all = append(all, make(To("stuck", fmt.Sprint("stuck ", i))))
	}
	for i := range 64 { // in all lanes
		all = append(all, make(To("q", fmt.Sprint("mate ", i))))
	}
	b.Put(all...)
	for range 64 {
		Receive(b, got, "message that was put together with the one that gets no confirm")
	}
	b.Faults.AwaitMessages("stuck", 1)
	pass("during the first try")
	tries := func() int { return b.Number("SELECT MAX(attempts) FROM rehop_outbox WHERE routing_key = 'stuck'") }
	b.Eventually("the first try is left to itself", func() bool { return tries() == 1 })
	pass("after that")
	stop()
	b.Exec("UPDATE rehop_outbox SET due = 1 WHERE routing_key = 'stuck'") // not in an hour
	b.Start(relay)
	pass("during the second try")
	b.Eventually("the second try is left to itself", func() bool { return tries() == 2 })
	pass("at last")
	b.Faults.HoldConfirmsOf(nil)
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
}

// nextOfTheKey: a message that is confirmed late is deleted when it is, and the next of its key is not sent before.
func nextOfTheKey(t *testing.T, b *Bench) {
	b.Migrate()
	b.Queue("slow")
	got := b.Collect("q")
	b.Faults.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
	relay := b.Relay()
	relay.Timeout = 10 * time.Minute // after which it would be sent again
	told := newRecorder()
	relay.Hooks = told.hooks()
	b.Start(relay)
	b.Put(ordered("k", "slow", "1"), ordered("k", "q", "2"))
	b.Eventually("the first is not waited for", func() bool { return told.totals().Retry == 1 })
	for i := range 50 { // all shards are looked at
		b.Put(ordered(fmt.Sprint("other ", i), "q", "other"))
	}
	for range 50 {
		Equal(b, "message while the first is not confirmed", Receive(b, got, "message of another key").ID, "other")
	}
	b.Faults.HoldConfirmsOf(nil)
	Equal(b, "message", Receive(b, got, "next of the key").ID, "2")
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	Equal(b, "copies of the first", len(b.Faults.Messages("slow")), 1)
}

// refuser is a publisher for a broker that refuses some messages.
type refuser struct {
	outbox.Publisher
	refuses func(*rehop.Message) bool
}

func (r refuser) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	var index []int
	var taken []rehop.Message
	for i, m := range messages {
		if r.refuses(&m) {
			settled(i, rehop.ErrRefused)
			continue
		}
		index, taken = append(index, i), append(taken, m)
	}
	r.Publisher.PublishEach(ctx, taken, func(j int, err error) { settled(index[j], err) })
}

// manyKeysRefused: thousands of keys whose messages a full queue refuses do not hold up other keys.
func manyKeysRefused(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	told := newRecorder()
	full := func(m *rehop.Message) bool { return m.Key == "full" }
	relay := b.Relay()
	relay.Client, relay.Hooks, relay.RetryMin, relay.RetryMax = refuser{b.Client, full}, told.hooks(), 2*time.Second, time.Hour
	b.Start(relay)
	const keys = 4000
	for i := 0; i < keys; i += 500 {
		var some []rehop.Message
		for j := range 500 {
			k := fmt.Sprint("held ", i+j)
			some = append(some, ordered(k, "full", k))
		}
		b.Put(some...)
	}
	b.Eventually("all are held", func() bool { return told.totals().Retry >= keys })
	began := time.Now()
	var healthy []rehop.Message
	for i := range 64 {
		healthy = append(healthy, ordered(fmt.Sprint("healthy ", i), "q", fmt.Sprint(i)), ordered(fmt.Sprint("held ", i), "q", "overtakes"))
	}
	b.Put(healthy...)
	for range len(healthy) / 2 {
		if d := Receive(b, got, "message of another key"); d.ID == "overtakes" {
			t.Error("a message has overtaken one of its key")
		}
	}
	t.Logf("%d messages of other keys took %v", len(healthy)/2, time.Since(began))
	Equal(b, "rows that are held", b.Number("SELECT COUNT(*) FROM rehop_outbox WHERE routing_key = 'full'"), keys)
}

// lockedRow: a transaction that has called Cancel and stays open holds up its own message at most.
func lockedRow(t *testing.T, b *Bench, keep time.Duration) {
	b.Migrate()
	got := b.Collect("q")
	relay := b.Relay()
	relay.Keep = keep
	b.Start(relay)
	b.Put(To("q", "warm"))
	Receive(b, got, "first message")
	tx := lockOneOf(b, got, 64)
	for range 64 {
		Receive(b, got, "message that is due, the locked one too")
	}
	var messages []rehop.Message
	for i := range 64 {
		m := To("q", fmt.Sprint("later ", i))
		m.Delay = 10 * time.Millisecond
		messages = append(messages, m)
	}
	b.Put(messages...)
	for range messages {
		if d := Receive(b, got, "message while the other transaction is open"); !strings.HasPrefix(d.ID, "later") {
			t.Errorf("got %s once more", d.ID)
		}
	}
	b.Must(tx.Rollback())
	b.Eventually("nothing is left to publish", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox WHERE state <> 4") == 0 })
	Equal(b, "messages more than once", len(got), 0)
}

// lockOneOf publishes messages that are due soon, and all at once, so that they are in one batch. It returns a transaction that has
// canceled one of them. On a slow machine they are sent before that: then it begins again with a later time.
func lockOneOf(b *Bench, got <-chan *rehop.Delivery, count int) inbox.Transaction {
	for ahead := 2 * time.Second; ; ahead *= 2 {
		due := time.Now().Add(ahead)
		var messages []rehop.Message
		for i := range count {
			m := To("q", fmt.Sprint("cancelled ", ahead, i))
			m.At = due
			messages = append(messages, m)
		}
		b.Put(messages...)
		tx := b.Tx()
		cancelled, err := b.Box.Cancel(b.Context(), tx, messages[0].ID)
		b.Must(err)
		if cancelled {
			return tx
		}
		b.Must(tx.Rollback())
		for range messages {
			Receive(b, got, "message that was sent before it could be canceled")
		}
	}
}

// serializable: where that is the default, the relay's work does not count among what users' transactions conflict with.
func serializable(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	relay := b.Relay()
	relay.DB = b.Open(t)
	relay.DB.SetMaxOpenConns(1) // so that all is done with the one that has this default
	if _, err := relay.DB.ExecContext(b.Context(), "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"); err != nil {
		t.Fatal(err)
	}
	user, err := b.DB.BeginTx(b.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	b.Must(err)
	t.Cleanup(func() { _ = user.Rollback() })
	if _, err := user.ExecContext(b.Context(), "SELECT COUNT(*) FROM rehop_inbox"); err != nil { // while it is open, what others have read is remembered
		t.Fatal(err)
	}
	b.Start(relay)
	large := To("q", "large")
	large.Body = make([]byte, 100_000)
	b.Put(To("q", "small"), large, rehop.Message{ID: "delayed", Key: "q", Delay: time.Millisecond})
	for range 3 {
		Receive(b, got, "message")
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	Equal(b, "places of the outbox that the relay is remembered to have read",
		b.Number("SELECT COUNT(*) FROM pg_locks WHERE mode = 'SIReadLock' AND relation IN ('rehop_outbox'::regclass, 'rehop_outbox_work'::regclass, 'rehop_outbox_pkey'::regclass)"), 0)
}
