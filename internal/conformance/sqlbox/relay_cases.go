package sqlbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

func relayCases() []Case {
	return []Case{
		{Name: "Oldest", Run: func(t *testing.T, b *Bench) {
			// The oldest message is in a shard behind one with many new ones.
			b.Migrate()
			for shard, age := range map[int]time.Duration{0: 0, 15: 24 * time.Hour} {
				for state, due := range map[int]string{0: "0", 2: b.Dialect.Now() + " - 1000"} {
					b.Exec(fmt.Sprintf("INSERT INTO rehop_outbox (nonce, state, shard, due, created, size, attempts, message_id, exchange, routing_key, order_key, properties, headers, body) VALUES (%d, %d, %d, %s, %s - %d, 10, 1, 'm', '', 'q', '', '{}', '', 'x')",
						10*shard+state, state, shard, due, b.Dialect.Now(), age.Microseconds()))
				}
			}
			backlog, err := b.Inspector().Backlog(b.Context())
			b.Must(err)
			if backlog.Oldest < 23*time.Hour || backlog.Ready != 2 || backlog.Retrying != 2 {
				t.Errorf("backlog: got %+v, want two and two, the oldest a day old", backlog)
			}
		}},
		{Name: "LateCommit", Not: oneWriter, Run: lateCommit},
		{Name: "VeryLateCommit", Not: oneWriter, Run: veryLateCommit},
		{Name: "Stop", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			relay := b.Relay()
			relay.Lease = time.Hour // it stops trying to give its leases back after that time
			stop := b.Start(relay)
			b.Put(To("q", "1"))
			Receive(b, got, "message")
			stop()
			Equal(b, "rows", b.Rows(), 0)
			Equal(b, "leases that were not given back", b.Number("SELECT COUNT(*) FROM rehop_outbox_lease WHERE owner <> ''"), 0)
			Equal(b, "relays that did not sign off", b.Number("SELECT COUNT(*) FROM rehop_outbox_relay"), 0)
			b.Put(To("q", "2"))
			Equal(b, "rows without a relay", b.Rows(), 1)
			b.Start(b.Relay())
			Equal(b, "message", Receive(b, got, "message of the next relay").ID, "2")
		}},
		{Name: "StopWaits", Faulty: true, Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Queue("q")
			b.Faults.HoldConfirms()
			relay := b.Relay()
			relay.DrainTimeout = limit
			stop := b.Start(relay)
			b.Put(To("q", "1"))
			b.Faults.AwaitMessages("q", 1)
			time.AfterFunc(100*time.Millisecond, b.Faults.ReleaseConfirms)
			stop()
			Equal(b, "rows: what was confirmed while it stopped must be deleted", b.Rows(), 0)
		}},
		{Name: "StopGivesUp", Faulty: true, Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Queue("q")
			b.Faults.HoldConfirms()
			relay := b.Relay()
			relay.DrainTimeout = 50 * time.Millisecond
			stop := b.Start(relay)
			b.Put(To("q", "1"))
			b.Faults.AwaitMessages("q", 1)
			stop()
			Equal(b, "rows: what was not confirmed must stay", b.Rows(), 1)
			b.Faults.ReleaseConfirms()
			got := b.Collect("q")
			b.Start(b.Relay())
			for range 2 { // it was in the broker anyway
				Equal(b, "message", Receive(b, got, "message").ID, "1")
			}
		}},
		{Name: "Blocked", Faulty: true, Run: func(t *testing.T, b *Bench) {
			outage(t, b, b.Faults.Block, b.Faults.Unblock)
		}},
		{Name: "Away", Faulty: true, Run: func(t *testing.T, b *Bench) {
			outage(t, b, b.Faults.Down, b.Faults.Up)
		}},
		{Name: "Cut", Faulty: true, Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Queue("q")
			b.Faults.HoldConfirms()
			b.Start(b.Relay())
			b.Put(To("q", "1"))
			b.Faults.AwaitMessages("q", 1)
			b.Faults.ReleaseConfirms()
			b.Faults.HoldConfirms()
			b.Put(To("q", "2"))
			b.Faults.AwaitMessages("q", 2)
			b.Faults.Drop() // nobody will know what became of it
			b.Faults.ReleaseConfirms()
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
			got := b.Collect("q")
			for _, want := range []string{"1", "2", "2"} {
				Equal(b, "message", Receive(b, got, "message").ID, want)
			}
		}},
		{Name: "LittleMemory", Run: littleMemory},
		{Name: "LargeAmongSmall", Run: largeAmongSmall},
		{Name: "Kept", Run: kept},
		{Name: "Backlog", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Put(To("missing", "1"), To("missing", "2"), rehop.Message{Key: "q", Delay: time.Hour},
				rehop.Message{Key: "missing", OrderKey: "k"})
			b.Exec("UPDATE rehop_outbox SET created = created - 3600000000 WHERE message_id = '1'")
			b.Exec("UPDATE rehop_outbox SET state = 3 WHERE message_id = '2'")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.Survey = told.hooks(), 10*time.Millisecond
			relay.RetryMin, relay.RetryMax = time.Hour, time.Hour
			stop := b.Start(relay)
			b.Eventually("what has no route is tried", func() bool { return told.totals().Retry == 2 })
			backlog := Receive(b, told.backlogs, "backlog")
			for backlog.Retrying != 2 {
				backlog = Receive(b, told.backlogs, "backlog with what is tried again")
			}
			stop()
			check := func(what string, got outbox.Backlog, want outbox.Backlog) {
				if got.Oldest < want.Oldest || got.Oldest > want.Oldest+limit {
					t.Errorf("%s: oldest: got %v, want %v", what, got.Oldest, want.Oldest)
				}
				got.Oldest = want.Oldest
				Equal(b, what, got, want)
			}
			check("what is tried again", backlog, outbox.Backlog{Retrying: 2, Delayed: 1, SetAside: 1, Oldest: time.Hour})
			b.Exec("UPDATE rehop_outbox SET due = due - 10800000000 WHERE state = 2 AND attempts = 0")
			b.Exec("UPDATE rehop_outbox SET state = 4 WHERE state = 3")
			counted, err := b.Inspector().Backlog(b.Context())
			b.Must(err)
			check("with one that is due", counted, outbox.Backlog{Ready: 1, Retrying: 2, Kept: 1, Oldest: 2 * time.Hour})
		}},
		{Name: "DatabaseAway", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks = told.hooks()
			b.Start(relay)
			b.Put(To("q", "before"))
			Equal(b, "message", Receive(b, got, "message").ID, "before")
			b.Exec("ALTER TABLE rehop_outbox RENAME TO elsewhere")
			Receive(b, told.faults, "fault")
			b.Exec("ALTER TABLE elsewhere RENAME TO rehop_outbox")
			b.Put(To("q", "after"))
			Equal(b, "message", Receive(b, got, "message").ID, "after")
		}},
		{Name: "NotRecorded", Faulty: true, Run: func(t *testing.T, b *Bench) {
			// The database is away when a message was confirmed: its row is deleted later, and it is not published again.
			b.Migrate()
			b.Queue("q")
			b.Faults.HoldConfirms()
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks = told.hooks()
			b.Start(relay)
			b.Put(To("q", "1"))
			b.Faults.AwaitMessages("q", 1)
			b.Exec("ALTER TABLE rehop_outbox RENAME TO elsewhere")
			b.Faults.ReleaseConfirms()
			for !strings.Contains(Receive(b, told.faults, "fault").Error(), "record outcomes") {
				continue
			}
			b.Exec("ALTER TABLE elsewhere RENAME TO rehop_outbox")
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
			Equal(b, "copies", len(b.Faults.Messages("q")), 1)
		}},
		{Name: "Woken", Run: woken},
		{Name: "ClosedClient", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			client := b.OpenClient()
			relay := b.Relay()
			relay.Client = client
			ended := make(chan error, 1)
			go func() { ended <- relay.Run(b.Context()) }()
			b.Eventually("relay works", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox_lease WHERE owner <> ''") > 0 })
			b.Must(client.Close(b.Context()))
			if err := Receive(b, ended, "end of the relay"); err == nil || !strings.Contains(err.Error(), rehop.ErrClosed.Error()) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}},
		{Name: "BadFields", Run: func(t *testing.T, b *Bench) {
			err := outbox.Relay{Dialect: "oracle", BatchSize: -1, Lease: time.Nanosecond, RetryMin: 2, RetryMax: 1}.Run(b.Context())
			for _, want := range []string{"Client", "DB", `"oracle"`, "BatchSize", "Lease", "RetryMin"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want one that names %s", err, want)
				}
			}
		}},
	}
}

// lateCommit: a transaction that has drawn its id first commits last.
func lateCommit(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	b.Start(b.Relay())
	for round := range 5 {
		late := b.Tx()
		b.Must(b.Box.Publish(b.Context(), late, To("q", fmt.Sprint("late ", round))))
		b.Put(To("q", fmt.Sprint("early ", round)))
		Equal(b, "first", Receive(b, got, "message").ID, fmt.Sprint("early ", round))
		b.Eventually("nothing is left of the first", func() bool { return b.Rows() == 0 })
		b.Must(late.Commit())
		Equal(b, "second", Receive(b, got, "message").ID, fmt.Sprint("late ", round))
	}
}

// veryLateCommit: it commits when the relay does not look any more, as a rule, where its row is.
func veryLateCommit(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	b.Start(b.Relay())
	late := b.Tx()
	b.Must(b.Box.Publish(b.Context(), late, To("q", "late")))
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		var early []rehop.Message
		for i := range 100 { // some are in its shard
			early = append(early, To("q", fmt.Sprint("early ", time.Since(began), i)))
		}
		b.Put(early...)
		for range early {
			Receive(b, got, "message")
		}
	}
	b.Must(late.Commit())
	began := time.Now()
	Equal(b, "message", Receive(b, got, "message").ID, "late")
	t.Logf("published %v after the commit", time.Since(began))
}

// outage: while the broker takes nothing, rows wait in the table and not in memory, and then go.
func outage(t *testing.T, b *Bench, begin, end func()) {
	b.Migrate()
	got := b.Collect("q")
	told := newRecorder()
	const n, size, most = 50, 5_000, 50_000
	w := &weigher{Publisher: b.Client}
	relay := b.Relay()
	relay.Hooks, relay.Client, relay.MaxBytes = told.hooks(), w, most
	b.Start(relay)
	b.Put(To("q", "before"))
	Receive(b, got, "message before the outage")
	b.Eventually("nothing is left of it", func() bool { return b.Rows() == 0 })
	begin()
	messages := make([]rehop.Message, n)
	for i := range messages {
		messages[i] = To("q", fmt.Sprint(i))
		messages[i].Body = make([]byte, size)
	}
	b.Put(messages...)
	Equal(b, "rows while the broker is away", b.Rows(), n)
	end()
	seen := make(map[string]bool)
	for len(seen) < n {
		seen[Receive(b, got, "message after the outage").ID] = true
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	Equal(b, "set aside", told.totals().SetAside, 0)
	if peak := w.peak(); peak > most {
		t.Errorf("bytes in memory: got at most %d, want no more than %d", peak, most)
	}
}

// weigher is a publisher that records how much it is given at a time.
type weigher struct {
	outbox.Publisher
	mu        sync.Mutex
	now, most int
}

func (w *weigher) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	sizes := make([]int, len(messages))
	w.mu.Lock()
	for i, m := range messages {
		sizes[i] = len(m.Body)
		w.now += sizes[i]
	}
	w.most = max(w.most, w.now)
	w.mu.Unlock()
	w.Publisher.PublishEach(ctx, messages, func(i int, err error) {
		w.mu.Lock()
		w.now -= sizes[i]
		w.mu.Unlock()
		settled(i, err)
	})
}

// peak is how much that was at most since the last call.
func (w *weigher) peak() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.most
	w.most = w.now
	return most
}

func littleMemory(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	const n, size, most = 24, 50_000, 400_000
	messages := make([]rehop.Message, n)
	for i := range messages {
		messages[i] = To("q", fmt.Sprint(i))
		messages[i].Body = make([]byte, size)
	}
	messages[n/2].Body = make([]byte, 3*most) // more than all memory: alone
	b.Put(messages...)
	w := &weigher{Publisher: b.Client}
	relay := b.Relay()
	relay.Client, relay.MaxBytes = w, most
	b.Start(relay)
	for range n {
		Receive(b, got, "message")
	}
	// On a busy machine some still wait for their confirms, which may use a quarter of the memory.
	if peak := w.peak(); peak < 3*most || peak > 3*most+most/4 {
		t.Errorf("bytes in memory: got at most %d, want %d, which is the large one alone", peak, 3*most)
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	w.peak()
	messages[n/2].Body = nil
	b.Put(messages...)
	for range n {
		Receive(b, got, "message")
	}
	if peak := w.peak(); peak > most {
		t.Errorf("bytes in memory: got at most %d, want no more than %d", peak, most)
	}
}

// turnstile is a publisher that lets one batch pass at a time, on request.
type turnstile struct {
	outbox.Publisher
	began chan string // with the id of its first message
	pass  chan struct{}
}

func (s *turnstile) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	s.began <- messages[0].ID
	<-s.pass
	s.Publisher.PublishEach(ctx, messages, settled)
}

// largeAmongSmall: a message that there is room for only when nothing else is under way gets its turn, although there is
// always something else.
func largeAmongSmall(t *testing.T, b *Bench) {
	b.Migrate()
	b.Queue("q")
	const most, rounds = 100_000, 300
	s := &turnstile{Publisher: b.Client, began: make(chan string, 1000), pass: make(chan struct{}, 1000)}
	relay := b.Relay()
	relay.Client, relay.MaxBytes = s, most
	b.Start(relay)
	t.Cleanup(func() { close(s.pass) })
	b.Put(To("q", "first"))
	Receive(b, s.began, "first message")
	large := To("q", "large")
	large.Body = make([]byte, 3*most)
	b.Put(large)
	// Rounds in which nothing begins do not count: nothing is ahead of the large one then, and the machine is slow.
	for began, round := time.Now(), 0; round < rounds && time.Since(began) < limit; {
		var small []rehop.Message
		for i := range 40 { // some are in each shard
			small = append(small, To("q", fmt.Sprint("small ", round, i)))
		}
		b.Put(small...)
		select {
		case id := <-s.began:
			if id == "large" {
				return
			}
			round++
		case <-time.After(300 * time.Millisecond): // nothing begins before the large one
		}
		s.pass <- struct{}{}
	}
	t.Errorf("after %d rounds, or %v, the large message had no turn", rounds, limit)
}

func kept(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	relay := b.Relay()
	relay.Keep = time.Hour
	stop := b.Start(relay)
	b.Put(To("q", "1"), To("q", "2"))
	Receive(b, got, "message")
	Receive(b, got, "message")
	inspector := b.Inspector()
	var list []outbox.Entry
	b.Eventually("both are kept", func() bool {
		var err error
		list, err = inspector.List(b.Context(), outbox.StateKept, outbox.RowID{}, 10)
		b.Must(err)
		return len(list) == 2
	})
	if left := time.Until(list[0].Due); left < 50*time.Minute || left > 70*time.Minute {
		t.Errorf("kept until %v, want for an hour", list[0].Due)
	}
	// A retry by an old list, from when it was set aside, does not publish it twice.
	n, err := inspector.Retry(b.Context(), list[0].Row)
	b.Must(err)
	Equal(b, "retried", n, 0)
	// It can be published once more.
	n, err = inspector.Republish(b.Context(), list[0].Row)
	b.Must(err)
	Equal(b, "published once more", n, 1)
	Equal(b, "message", Receive(b, got, "message once more").ID, list[0].Message.ID)
	stop()
	relay.Keep = time.Millisecond
	b.Start(relay)
	b.Exec("UPDATE rehop_outbox SET due = 1 WHERE state = 4 AND message_id = '1'")
	b.Put(To("q", "3"))
	Receive(b, got, "message")
	b.Eventually("what was kept long enough is deleted, and nothing else", func() bool { return b.Rows() == 1 })
}

// counter is a waker that counts how often it wakes.
type counter struct {
	outbox.Waker
	times atomic.Int32
}

func (c *counter) Listen(ctx context.Context, wake func()) error {
	return c.Waker.Listen(ctx, func() {
		c.times.Add(1)
		wake()
	})
}

// bell is a waker that a case rings.
type bell chan struct{}

func (b bell) Listen(ctx context.Context, wake func()) error {
	wake()
	for {
		select {
		case <-b:
			wake()
		case <-ctx.Done():
			return nil
		}
	}
}

// woken: transactions that commit wake the relay where the database can notify it, and only there and then.
func woken(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	waker := &counter{Waker: b.Waker}
	tells := b.Waker != nil
	if !tells {
		waker.Waker = make(bell)
	}
	relay := b.Relay()
	relay.Waker, relay.Lease = waker, shortLease
	b.Start(relay)
	b.Eventually("the relay listens", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox_relay WHERE listening = 1") == 1 })
	before := waker.times.Load()
	tx := b.Tx()
	b.Must(b.Box.Publish(b.Context(), tx, To("q", "rolled back")))
	b.Must(tx.Rollback())
	b.Put(rehop.Message{Key: "q", Delay: time.Hour})
	b.Put(To("q", "1"))
	Equal(b, "message", Receive(b, got, "message").ID, "1")
	if tells {
		b.Eventually("the relay is woken", func() bool { return waker.times.Load() > before })
		before++
	}
	Equal(b, "times it was woken", waker.times.Load(), before)
}
