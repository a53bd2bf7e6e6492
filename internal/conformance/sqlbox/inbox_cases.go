package sqlbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/internal/layouts"
)

func inboxCases() []Case {
	fail := errors.New("it fails the first time")
	return []Case{
		{Name: "Duplicate", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			told := newRecorder()
			b.Consume("q", told, 1, b.effect)
			for range 3 {
				b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			}
			for range 2 {
				Equal(b, "duplicate", Receive(b, told.duplicates, "duplicate"), "1")
			}
			Equal(b, "effects", b.Effects("1"), 1)
		}},
		{Name: "AtOnce", Run: func(t *testing.T, b *Bench) { atOnce(t, b, nil) }},
		{Name: "AtOnceAndFails", Run: func(t *testing.T, b *Bench) { atOnce(t, b, fail) }},
		{Name: "Error", Run: func(t *testing.T, b *Bench) { failsOnce(t, b, func() error { return fail }) }},
		{Name: "Panic", Run: func(t *testing.T, b *Bench) { failsOnce(t, b, func() error { panic("oh") }) }},
		{Name: "Goexit", Run: func(t *testing.T, b *Bench) {
			failsOnce(t, b, func() error { runtime.Goexit(); return nil })
		}},
		{Name: "EndedByHandler", Run: func(t *testing.T, b *Bench) {
			// What it did is not there, so it is an error although it returns nil.
			b.Migrate()
			var runs atomic.Int32
			done := make(chan struct{}, 10)
			b.Consume("q", newRecorder(), 1, func(ctx context.Context, d *rehop.Delivery) error {
				if runs.Add(1) == 1 {
					return inbox.From(ctx).Rollback()
				}
				defer func() { done <- struct{}{} }()
				return b.effect(ctx, d)
			})
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			Receive(b, done, "second run")
			b.Eventually("effect", func() bool { return b.Effects("1") == 1 })
		}},
		{Name: "SwallowedError", Not: notPostgres, Run: func(t *testing.T, b *Bench) {
			// Only PostgreSQL fails a whole transaction with one of its statements.
			b.Migrate()
			var runs atomic.Int32
			b.Consume("q", newRecorder(), 1, func(ctx context.Context, d *rehop.Delivery) error {
				if err := b.effect(ctx, d); err != nil {
					return err
				}
				if runs.Add(1) == 1 {
					_, _ = inbox.From(ctx).ExecContext(ctx, "SELECT nonsense")
				}
				return nil
			})
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			b.Eventually("effect", func() bool { return b.Effects("1") == 1 })
			Equal(b, "runs", runs.Load(), 2)
		}},
		{Name: "SwallowedDeadlock", Not: notMySQL, Run: swallowedDeadlock},
		{Name: "Deadlock", Not: oneWriter, Run: deadlock},
		{Name: "Frozen", Not: oneWriter, Run: frozen},
		{Name: "FrozenAtCopy", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			// Somebody has locked the row of a message that was handled. Its copy waits for a bounded time.
			b.Migrate()
			in := b.Inbox(nil)
			in.MaxWait = 300 * time.Millisecond
			handle := in.Middleware("q")(rehop.HandlerFunc(b.effect))
			message := &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: "1"}}
			b.Must(handle.Handle(b.Context(), message))
			tx := b.Tx()
			_, err := tx.ExecContext(b.Context(), "UPDATE rehop_inbox SET handled = handled + 1")
			b.Must(err)
			if err := handle.Handle(b.Context(), message); err == nil || b.Context().Err() != nil {
				t.Errorf("a copy while the row is locked: got %v, want an error in time", err)
			}
			b.Must(tx.Rollback())
			b.Must(handle.Handle(b.Context(), message))
			Equal(b, "effects", b.Effects("1"), 1)
		}},
		{Name: "Interrupted", Not: []dialect.Dialect{dialect.Postgres, dialect.MySQL}, Run: func(t *testing.T, b *Bench) {
			// SQLite ends a transaction by itself, and what a handler does then that takes no notice is committed at once: it is not done again.
			b.Migrate()
			handle := b.Inbox(nil).Middleware("q")(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				_, _ = inbox.From(ctx).ExecContext(ctx, "INSERT OR ROLLBACK INTO rehop_inbox (id, handled, consumer, message_id) SELECT id, 1, 'x', 'x' FROM rehop_inbox")
				return b.effect(ctx, d)
			}))
			err := handle.Handle(b.Context(), &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: "1"}})
			var decided interface{ Instruction() }
			if err == nil || !errors.As(err, &decided) || !strings.Contains(err.Error(), "rolled the transaction back") {
				t.Errorf("handle: got %v, want a permanent error with the reason", err)
			}
		}},
		{Name: "CleansItself", Run: func(t *testing.T, b *Bench) {
			// Also behind a row with a date in the future.
			b.Migrate()
			b.Exec("INSERT INTO rehop_inbox (handled, consumer, message_id) VALUES (" + b.Dialect.Now() + " + 3600000000, 'q', 'future')")
			b.Exec("INSERT INTO rehop_inbox (handled, consumer, message_id) VALUES (1, 'q', 'old')")
			b.Consume("q", newRecorder(), 1, b.effect)
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			b.Eventually("what is old is deleted", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_inbox WHERE handled = 1") == 0 })
			b.Eventually("effect", func() bool { return b.Effects("1") == 1 })
			Equal(b, "rows", b.Number("SELECT COUNT(*) FROM rehop_inbox"), 2)
		}},
		{Name: "CopyHoldsUpNobody", Not: oneWriter, Run: copyHoldsUpNobody},
		{Name: "CommittedByHandler", Run: func(t *testing.T, b *Bench) {
			// On MySQL and MariaDB a change of a table's definition commits the transaction, and the message's id with it.
			if b.Dialect != dialect.MySQL {
				return
			}
			b.Migrate()
			var runs atomic.Int32
			b.Consume("q", newRecorder(), 1, func(ctx context.Context, _ *rehop.Delivery) error {
				runs.Add(1)
				if _, err := inbox.Tx(ctx).ExecContext(ctx, "CREATE TABLE made_by_handler (id INT)"); err != nil {
					return err
				}
				return errors.New("failed afterwards")
			})
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			b.WantFailed("q", "has committed its transaction")
			Equal(b, "runs of the handler", runs.Load(), 1)
		}},
		{Name: "NoID", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			var runs atomic.Int32
			b.Consume("q", newRecorder(), 1, func(context.Context, *rehop.Delivery) error { runs.Add(1); return nil })
			ch := b.channel()
			b.Must(ch.PublishWithContext(b.Context(), "", "q", true, false, amqp091.Publishing{Body: []byte("nobody")}))
			b.WantFailed("q", "no message_id")
			Equal(b, "runs of the handler", runs.Load(), 0)
		}},
		{Name: "OddID", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			told := newRecorder()
			b.Consume("q", told, 1, func(context.Context, *rehop.Delivery) error { return nil })
			ch := b.channel()
			ids := []string{"a", "A", "a ", "ä", "\xff\x00", strings.Repeat("x", 255)}
			for range 2 {
				for _, id := range ids {
					b.Must(ch.PublishWithContext(b.Context(), "", "q", true, false, amqp091.Publishing{MessageId: id}))
				}
			}
			for _, id := range ids {
				Equal(b, "duplicate", Receive(b, told.duplicates, "duplicate"), id)
			}
			Equal(b, "messages", b.Number("SELECT COUNT(*) FROM rehop_inbox"), len(ids))
		}},
		{Name: "TwoConsumers", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			for _, queue := range []string{"q1", "q2"} {
				b.Consume(queue, newRecorder(), 1, b.effect)
				b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: queue}))
			}
			b.Eventually("each has its effect", func() bool { return b.Effects("1") == 2 })
		}},
		{Name: "Batch", Run: batches},
		{Name: "BatchOutcomes", Run: batchOutcomes},
		{Name: "BatchAndCopy", Not: oneWriter, Run: batchAndCopy},
		{Name: "Produce", Run: produce},
		{Name: "DatabaseAway", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			attempts := make(chan int, 10)
			b.Exec("ALTER TABLE rehop_inbox RENAME TO elsewhere")
			paused := make(pauses, 100)
			b.Client = b.OpenClient(func(c *rehop.Config) { c.Hooks = append(c.Hooks, rehop.Hooks{OnPause: paused.OnPause}) })
			b.Consume("q", newRecorder(), 1, func(ctx context.Context, d *rehop.Delivery) error {
				attempts <- d.Attempt
				return nil
			})
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			if e := Receive(b, paused, "pause"); !e.Paused || !strings.Contains(e.Err.Error(), "inbox") {
				t.Errorf("got %+v, want a pause with its reason", e)
			}
			b.Exec("ALTER TABLE elsewhere RENAME TO rehop_inbox")
			Equal(b, "attempt", Receive(b, attempts, "run of the handler"), 1)
		}},
		{Name: "Clean", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			const old = 2500 // more than are deleted at once
			for i := range old / 100 {
				var values []string
				for j := range 100 {
					values = append(values, fmt.Sprintf("('c', '%d', 0)", 100*i+j))
				}
				b.Exec("INSERT INTO rehop_inbox (consumer, message_id, handled) VALUES " + strings.Join(values, ", "))
			}
			b.Exec("INSERT INTO rehop_inbox (consumer, message_id, handled) VALUES ('c', 'fresh', " + b.Dialect.Now() + " - 1800000000)")
			in := b.Inbox(nil)
			in.Keep = time.Hour
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- in.Clean(ctx) }()
			b.Eventually("old ids are gone", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_inbox") == 1 })
			cancel()
			b.Must(Receive(b, ended, "end of Clean"))
			if err := (inbox.Inbox{}).Clean(b.Context()); err == nil || !strings.Contains(err.Error(), "DB is nil") {
				t.Errorf("clean nothing: got %v, want an error that names DB", err)
			}
		}},
	}
}

// pauses keeps the pauses that it receives.
type pauses chan rehop.PauseEvent

func (p pauses) OnPause(e rehop.PauseEvent) { p <- e }

// Inbox is an inbox of the database.
func (b *Bench) Inbox(told *recorder) inbox.Inbox {
	in := inbox.Inbox{DB: b.DB, Dialect: b.Dialect, Begin: b.handlersBegin}
	if told != nil {
		in.OnDuplicate = told.OnDuplicate
	}
	return in
}

// Consume handles the messages of a queue, each in a transaction of the inbox.
func (b *Bench) Consume(queue string, told *recorder, concurrency int, handle rehop.HandlerFunc) {
	b.t.Helper()
	_, err := b.Client.Subscribe(b.Context(), rehop.Subscriber{
		Queue: queue, Concurrency: concurrency, Retry: rehop.Steps(10*time.Millisecond, 10*time.Millisecond), ProbeMin: 10 * time.Millisecond,
		Middleware: []rehop.Middleware{b.Inbox(told).Middleware("")}, Handler: handle,
	})
	if err != nil {
		b.t.Fatalf("subscribe to %q: %v", queue, err)
	}
}

// deadlock: of two handlers that wait for each other the database ends one, which is no fault of its message: it has one attempt.
func deadlock(t *testing.T, b *Bench) {
	b.Migrate()
	b.Exec("CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER)")
	b.Exec("INSERT INTO stock (id, n) VALUES (1, 0), (2, 0)")
	take := func(ctx context.Context, id int) error {
		_, err := inbox.From(ctx).ExecContext(ctx, b.Dialect.Bind("UPDATE stock SET n = n + 1 WHERE id = ?"), id)
		return err
	}
	var met sync.WaitGroup
	met.Add(2)
	var runs atomic.Int32
	attempts := make(chan int, 10)
	b.Consume("q", newRecorder(), 2, func(ctx context.Context, d *rehop.Delivery) error {
		first, second := 1, 2
		if d.ID == "b" {
			first, second = 2, 1
		}
		if err := take(ctx, first); err != nil {
			return err
		}
		if runs.Add(1) <= 2 {
			met.Done()
			met.Wait()
		}
		if err := take(ctx, second); err != nil {
			return fmt.Errorf("take from stock: %w", err)
		}
		attempts <- d.Attempt
		return nil
	})
	for _, id := range []string{"a", "b"} {
		b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: id, Key: "q"}))
	}
	for range 2 {
		Equal(b, "attempt", Receive(b, attempts, "handled message"), 1)
	}
	b.Eventually("both have their effects, once", func() bool { return b.Number("SELECT SUM(n) FROM stock") == 4 })
	if n := runs.Load(); n < 3 {
		t.Errorf("inconclusive: got %d runs, want one more because of a deadlock", n)
	}
}

// frozen: a handler that hangs in its transaction does not hold up a worker that has a copy of its message.
func frozen(t *testing.T, b *Bench) {
	b.Migrate()
	in := b.Inbox(nil)
	in.MaxWait = 300 * time.Millisecond
	told := newRecorder()
	in.OnDuplicate = told.OnDuplicate
	hangs, release := make(chan struct{}), make(chan struct{})
	handled := make(chan string, 10)
	attempts := make(chan int, 10)
	for _, queue := range []string{"first", "second"} {
		_, err := b.Client.Subscribe(b.Context(), rehop.Subscriber{
			Queue: queue, Retry: rehop.Steps(), Middleware: []rehop.Middleware{in.Middleware("both")},
			Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				if d.ID == "hangs" {
					close(hangs) // it runs once
					<-release
				}
				attempts <- d.Attempt
				handled <- d.ID
				return nil
			}),
		})
		b.Must(err)
	}
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "hangs", Key: "first"}))
	Receive(b, hangs, "handler that hangs")
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "hangs", Key: "second"}))
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "other", Key: "second"}))
	Equal(b, "message behind the copy", Receive(b, handled, "message behind the copy"), "other")
	close(release)
	Equal(b, "message", Receive(b, handled, "message whose handler hung"), "hangs")
	Equal(b, "duplicate", Receive(b, told.duplicates, "copy"), "hangs") // and not in the failed queue: it has one attempt
	for range 2 {
		Equal(b, "attempt", Receive(b, attempts, "attempt"), 1)
	}
}

// effect is what a handler does in the database.
func (b *Bench) effect(ctx context.Context, d *rehop.Delivery) error {
	_, err := inbox.From(ctx).ExecContext(ctx, b.Dialect.Bind("INSERT INTO effect (name) VALUES (?)"), d.ID)
	return err
}

// Effects is how many there are of a message.
func (b *Bench) Effects(id string) int {
	b.t.Helper()
	return b.Number("SELECT COUNT(*) FROM effect WHERE name = ?", id)
}

// WantFailed waits for a message in the failed queue of a queue, whose headers must have the reason.
func (b *Bench) WantFailed(queue, reason string) {
	b.t.Helper()
	ch := b.channel()
	b.Eventually("it is in the failed queue", func() bool {
		d, ok, err := ch.Get(layouts.FailedQueue(queue), true)
		b.Must(err)
		if ok && !strings.Contains(fmt.Sprint(d.Headers), reason) {
			b.t.Errorf("failed message: got headers %v, want the reason %q", d.Headers, reason)
		}
		return ok
	})
}

func (b *Bench) channel() *amqp091.Channel {
	b.t.Helper()
	config := b.Broker.Config()
	plain := amqp091.Config{}
	if config.Dial != nil {
		plain.Dial = func(network, addr string) (net.Conn, error) { return config.Dial(b.Context(), network, addr) }
	}
	conn, err := amqp091.DialConfig(config.URL, plain)
	b.Must(err)
	b.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	b.Must(err)
	return ch
}

// atOnce: several copies are handled at the same time. Only one has its effect, also if the first of them fails.
func atOnce(t *testing.T, b *Bench, fail error) {
	b.Migrate()
	const copies = 6
	told := newRecorder()
	var handlers, runs atomic.Int32
	began, all := make(chan struct{}, copies), make(chan struct{})
	in := b.Inbox(told).Middleware("consumer")
	count := func(next rehop.Handler) rehop.Handler {
		return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			handlers.Add(1)
			began <- struct{}{}
			return next.Handle(ctx, d)
		})
	}
	_, err := b.Client.Subscribe(b.Context(), rehop.Subscriber{
		Queue: "q", Concurrency: copies, Prefetch: copies, Retry: rehop.Steps(10 * time.Millisecond), Middleware: []rehop.Middleware{count, in},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			first := runs.Add(1) == 1
			if err := b.effect(ctx, d); err != nil {
				return err
			}
			if first {
				<-all // the others are waiting for this one by now, or soon
				return fail
			}
			return nil
		}),
	})
	b.Must(err)
	for range copies {
		b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
	}
	for range copies {
		Receive(b, began, "copy")
	}
	close(all)
	duplicates, wantRuns := copies-1, int32(1)
	if fail != nil { // it comes back once more
		wantRuns = 2
	}
	for range duplicates {
		Receive(b, told.duplicates, "duplicate")
	}
	b.Eventually("one effect", func() bool { return b.Effects("1") == 1 })
	Equal(b, "runs of the handler", runs.Load(), wantRuns)
}

// failsOnce: what a handler did in vain is not there; its next run is the one.
func failsOnce(t *testing.T, b *Bench, end func() error) {
	b.Migrate()
	told := newRecorder()
	var runs atomic.Int32
	b.Consume("q", told, 1, func(ctx context.Context, d *rehop.Delivery) error {
		if err := b.effect(ctx, d); err != nil {
			return err
		}
		if runs.Add(1) == 1 {
			return end()
		}
		return nil
	})
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
	b.Eventually("effect", func() bool { return b.Effects("1") == 1 })
	Equal(b, "runs", runs.Load(), 2)
	Equal(b, "duplicates", len(told.duplicates), 0)
}

// swallowedDeadlock: MySQL ends a transaction that deadlocks, and would commit what comes behind it statement by statement. Nothing of
// that stays, though the handler returns no error.
func swallowedDeadlock(t *testing.T, b *Bench) {
	b.Migrate()
	b.Exec("CREATE TABLE stock (id INT PRIMARY KEY, n INT)")
	b.Exec("INSERT INTO stock VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)")
	var runs atomic.Int32
	b.Consume("q", newRecorder(), 1, func(ctx context.Context, d *rehop.Delivery) error {
		if runs.Add(1) == 1 {
			if err := b.effect(ctx, d); err != nil {
				return err
			}
			if err := b.deadlock(ctx, inbox.From(ctx)); err == nil || !strings.Contains(err.Error(), "1213") {
				t.Errorf("statement in a deadlock: got %v, want error 1213", err)
			}
		}
		return b.effect(ctx, d)
	})
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
	b.Eventually("it is handled", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_inbox") == 1 })
	Equal(b, "runs", runs.Load(), 2)
	Equal(b, "effects", b.Effects("1"), 1)
	Equal(b, "what was done before the deadlock", b.Number("SELECT n FROM stock WHERE id = 1"), 0)
}

// deadlock has a transaction wait for one that waits for it and has done more, so that the database ends the first.
func (b *Bench) deadlock(ctx context.Context, tx inbox.Transaction) error {
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE id = 1"); err != nil {
		return err
	}
	other, err := b.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := other.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE id > 1"); err != nil {
		return errors.Join(err, other.Rollback())
	}
	ended := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE id = 1")
		ended <- errors.Join(err, other.Rollback())
	}()
	b.Eventually("the other one waits", func() bool {
		return b.Number("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE stock%'") > 0
	})
	_, err = tx.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE id = 2")
	if otherErr := <-ended; otherErr != nil {
		return fmt.Errorf("the other one was ended: %w", otherErr)
	}
	return err
}

// copyHoldsUpNobody: while a copy waits for the first, messages with neighbouring ids are handled.
func copyHoldsUpNobody(t *testing.T, b *Bench) {
	b.Migrate()
	goOn, began := make(chan struct{}), make(chan struct{}, 1)
	told := newRecorder()
	h := b.Inbox(told).Middleware("c")(rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.ID == "m5" {
			began <- struct{}{}
			<-goOn
		}
		return nil
	}))
	handle := func(id string) <-chan error {
		ended := make(chan error, 1)
		ctx := b.Context()
		go func() { ended <- h.Handle(ctx, &rehop.Delivery{Message: rehop.Message{ID: id}}) }()
		return ended
	}
	first := handle("m5")
	Receive(b, began, "first run")
	second := handle("m5")
	for i, start := 0, time.Now(); time.Since(start) < 500*time.Millisecond; i++ {
		for _, id := range []string{fmt.Sprint("m4 ", i), fmt.Sprint("m6 ", i)} {
			select {
			case err := <-handle(id):
				b.Must(err)
			case <-time.After(limit):
				t.Fatalf("%s waits for a copy of m5 that waits", id)
			}
		}
	}
	Equal(b, "duplicates before the first has ended", len(told.duplicates), 0)
	close(goOn)
	b.Must(Receive(b, first, "end of the first"))
	b.Must(Receive(b, second, "end of the copy"))
	Equal(b, "duplicate", Receive(b, told.duplicates, "duplicate"), "m5")
}

// batches: messages arrive several times, in batches of several workers. Each has its effect once.
func batches(t *testing.T, b *Bench) {
	b.Migrate()
	const messages, copies = 30, 3
	told := newRecorder()
	_, err := b.Client.Subscribe(b.Context(), rehop.Subscriber{
		Queue: "q", Concurrency: 3, Retry: rehop.Steps(10*time.Millisecond, 10*time.Millisecond), ProbeMin: 10 * time.Millisecond,
		Batch: rehop.Batch{Size: 8, Wait: 20 * time.Millisecond, Handle: b.Inbox(told).BatchHandler("", b.effects)},
	})
	b.Must(err)
	for range copies {
		for i := range messages {
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: fmt.Sprint(i), Key: "q"}))
		}
	}
	for range messages * (copies - 1) {
		Receive(b, told.duplicates, "duplicate")
	}
	b.Eventually("each has its effect", func() bool { return b.Number("SELECT COUNT(DISTINCT name) FROM effect") == messages })
	Equal(b, "effects", b.Number("SELECT COUNT(*) FROM effect"), messages)
	Equal(b, "rows", b.Number("SELECT COUNT(*) FROM rehop_inbox"), messages)
}

// effects is what the handler of a batch does in the database.
func (b *Bench) effects(ctx context.Context, all []*rehop.Delivery) error {
	for _, d := range all {
		if err := b.effect(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// batchOutcomes: what the function of a batch has done for a message that fails is not there, nor its id, and the others have their effects.
func batchOutcomes(t *testing.T, b *Bench) {
	b.Migrate()
	fail := errors.New("bad message")
	var with []error // answers of the next calls, each for all messages that it has
	handle := b.Inbox(nil).BatchHandler("q", func(ctx context.Context, all []*rehop.Delivery) error {
		if err := b.effects(ctx, all); err != nil {
			return err
		}
		each := &rehop.BatchError{Errors: make([]error, len(all))}
		for i, d := range all {
			if d.ID == "bad" {
				each.Errors[i] = fail
			}
		}
		if len(with) > 0 {
			err := with[0]
			with = with[1:]
			return err
		}
		return each
	})
	batch := func(ids ...string) (all []*rehop.Delivery) {
		for _, id := range ids {
			all = append(all, &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: id}})
		}
		return all
	}
	err := handle(b.Context(), batch("1", "bad", "2"))
	if each, is := err.(*rehop.BatchError); !is || each.Errors[0] != nil || !errors.Is(each.Errors[1], fail) || each.Errors[2] != nil {
		t.Errorf("one that fails: got %v, want an error of the second", err)
	}
	with = []error{fail}
	err = handle(b.Context(), batch("2", "3", "4"))
	if each, is := err.(*rehop.BatchError); !is || each.Errors[0] != nil || !errors.Is(each.Errors[1], fail) || !errors.Is(each.Errors[2], fail) {
		t.Errorf("an error after a copy: got %v, want an error of those that are new", err)
	}
	b.Must(handle(b.Context(), batch("1", "3", "4")))
	b.Must(handle(b.Context(), batch("1", "2", "3", "4")))
	for _, id := range []string{"1", "2", "3", "4"} {
		Equal(b, "effects of "+id, b.Effects(id), 1)
	}
	Equal(b, "effects of a message that failed", b.Effects("bad"), 0)
	Equal(b, "rows", b.Number("SELECT COUNT(*) FROM rehop_inbox"), 4)
}

// batchAndCopy: while a copy of one of its messages is being handled, the others of a batch are committed.
func batchAndCopy(t *testing.T, b *Bench) {
	b.Migrate()
	began, goOn := make(chan struct{}), make(chan struct{})
	told := newRecorder()
	single := b.Inbox(nil).Middleware("q")(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		close(began)
		<-goOn
		return b.effect(ctx, d)
	}))
	message := func(id string) *rehop.Delivery {
		return &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: id}}
	}
	ended := make(chan error, 1)
	ctx := b.Context()
	go func() { ended <- single.Handle(ctx, message("2")) }()
	Receive(b, began, "first run")
	in := b.Inbox(told)
	in.MaxWait = limit
	batch := in.BatchHandler("q", b.effects)
	go func() { ended <- batch(ctx, []*rehop.Delivery{message("1"), message("2"), message("3")}) }()
	b.Eventually("the others are committed", func() bool { return b.Effects("1") == 1 && b.Effects("3") == 1 })
	close(goOn)
	for range 2 {
		b.Must(Receive(b, ended, "end"))
	}
	Equal(b, "duplicate", Receive(b, told.duplicates, "duplicate"), "2")
	Equal(b, "effects", b.Effects("2"), 1)
}

// produce: a message is consumed, has its effect, and makes another one, all of it once.
func produce(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("out")
	b.Start(b.Relay())
	told := newRecorder()
	var runs atomic.Int32
	b.Consume("in", told, 1, func(ctx context.Context, d *rehop.Delivery) error {
		if err := b.effect(ctx, d); err != nil {
			return err
		}
		if err := b.Box.Publish(ctx, inbox.From(ctx), rehop.Message{ID: fmt.Sprint("from ", d.ID, " by run ", runs.Add(1)), Key: "out"}); err != nil {
			return err
		}
		if runs.Load() == 1 {
			return errors.New("too late")
		}
		return nil
	})
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "in"}))
	Equal(b, "produced", Receive(b, got, "message").ID, "from 1 by run 2")
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "in"}))
	Receive(b, told.duplicates, "duplicate")
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	Equal(b, "effects", b.Effects("1"), 1)
	Equal(b, "more that was produced", len(got), 0)
}
