package sqlbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

func orderCases() []Case {
	return []Case{
		{Name: "ManyWriters", Run: manyWriters},
		{Name: "OneKey", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Firsts("q")
			b.Start(b.Relay())
			var messages []rehop.Message
			for i := range 100 {
				messages = append(messages, ordered("k", "q", fmt.Sprint(i)))
			}
			b.Put(messages...)
			for i := range messages {
				Equal(b, "message", Receive(b, got, "message").ID, fmt.Sprint(i))
			}
		}},
		{Name: "Waits", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			// A transaction waits for another one with the same key, and not for one with another key.
			b.Migrate()
			first := b.Tx()
			b.Must(b.Box.Publish(b.Context(), first, ordered("k", "q", "first")))
			b.Put(ordered("another", "q", "other"), To("q", "without"))
			second := b.Tx()
			done := make(chan error, 1)
			go func() { done <- b.Box.Publish(b.Context(), second, ordered("k", "q", "second")) }()
			select {
			case err := <-done:
				t.Errorf("the second transaction did not wait for the first: got %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			b.Must(first.Commit())
			b.Must(Receive(b, done, "second transaction"))
			b.Must(second.Commit())
		}},
		{Name: "LateCommit", Not: oneWriter, Run: lateInOrder},
		{Name: "LateAndMany", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			lateInParts(t, b, 600, 10, func(*outbox.Relay) {}) // more than are read at once
		}},
		{Name: "LateAndLarge", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			lateInParts(t, b, 4, 300_000, func(r *outbox.Relay) { r.MaxBytes = 1 << 20 }) // more than is published at once
		}},
		{Name: "ManyKeys", Run: func(t *testing.T, b *Bench) {
			// More keys than a database has locks for.
			b.Migrate()
			var messages []rehop.Message
			for i := range 40_000 {
				messages = append(messages, rehop.Message{Key: "q", OrderKey: fmt.Sprint("key ", i)})
			}
			tx := b.Tx()
			ctx, cancel := context.WithTimeout(context.Background(), 4*limit)
			defer cancel()
			b.Must(b.Box.Publish(ctx, tx, messages...))
			b.Must(tx.Rollback())
		}},
		{Name: "NothingToLock", Not: notMySQL, Run: func(t *testing.T, b *Bench) {
			// Somebody has emptied all tables. An order that could not be kept is not promised.
			b.Migrate()
			b.Exec("TRUNCATE TABLE rehop_outbox_order")
			tx := b.Tx()
			if err := b.Box.Publish(b.Context(), tx, ordered("k", "q", "1")); err == nil || !strings.Contains(err.Error(), "rehop_outbox_order") {
				t.Errorf("publish: got %v, want an error that names rehop_outbox_order", err)
			}
			b.Must(tx.Rollback())
			got := b.Firsts("q")
			b.Start(b.Relay()) // puts back what is missing
			b.Eventually("all is there", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox_order") == 1024 })
			b.Put(ordered("k", "q", "1"))
			Equal(b, "message", Receive(b, got, "message").ID, "1")
		}},
		{Name: "SeveralKeys", Run: func(t *testing.T, b *Bench) {
			// Calls with the same keys in different order do not wait for each other forever.
			b.Migrate()
			var writers sync.WaitGroup
			for w := range 8 {
				writers.Go(func() {
					for i := range 5 {
						keys := []string{"a", "b", "c", "d"}
						rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
						var messages []rehop.Message
						for _, k := range keys {
							messages = append(messages, ordered(k, "q", fmt.Sprint(w, i, k)))
						}
						if err := b.write(messages, nil); err != nil {
							t.Errorf("publish several keys: got %v, want nil", err)
						}
					}
				})
			}
			writers.Wait()
			Equal(b, "rows", b.Rows(), 8*5*4)
		}},
		{Name: "Held", Faulty: true, Run: func(t *testing.T, b *Bench) {
			held(t, b, 1)
		}},
		{Name: "SeveralHeld", Faulty: true, Run: func(t *testing.T, b *Bench) {
			held(t, b, 20)
		}},
		{Name: "HeldForLong", Run: heldForLong},
		{Name: "NotTooOften", Run: func(t *testing.T, b *Bench) {
			// A message that fails is not tried again before its time, however busy its shard is.
			b.Migrate()
			got := b.Firsts("q")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.RetryMin, relay.RetryMax = told.hooks(), time.Hour, time.Hour
			relay.Lease = time.Hour // what is not written down before a lease ends is tried again
			b.Start(relay)
			b.Put(ordered("k", "missing", "1"))
			b.Eventually("it is tried", func() bool { return told.totals().Retry > 0 })
			for i := range 5 {
				var others []rehop.Message
				for j := range 20 {
					others = append(others, ordered(fmt.Sprint("other ", j), "q", fmt.Sprint(i, j)))
				}
				b.Put(others...)
				for range others {
					Receive(b, got, "message of another key")
				}
			}
			// Others may have been postponed, too: what a slow broker does not confirm within a second is.
			Equal(b, "tries", b.Number("SELECT attempts FROM rehop_outbox WHERE message_id = '1'"), 1)
		}},
		{Name: "SetAside", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Firsts("q")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks, relay.Tries = told.hooks(), 3
			b.Start(relay)
			b.Put(ordered("k", "q", "1"), ordered("k", "missing", "2"), ordered("k", "q", "3"))
			Equal(b, "message", Receive(b, got, "message").ID, "1")
			Equal(b, "set aside", Receive(b, told.aside, "message that was set aside").MessageID, "2")
			Equal(b, "message", Receive(b, got, "message").ID, "3")
		}},
	}
}

// shardOf is the shard of the messages of a key.
func shardOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % 16)
}

// keysOfOneShard are keys whose messages are in the same shard.
func keysOfOneShard(n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key ", i); shardOf(key) == shardOf("key 0") {
			keys = append(keys, key)
		}
	}
	return keys
}

// lateInParts: a transaction with more messages than a relay takes at once commits late. The next message of its key does not overtake
// those that were left for the next look.
func lateInParts(t *testing.T, b *Bench, messages, size int, change func(*outbox.Relay)) {
	b.Migrate()
	got := b.Firsts("q")
	relay := b.Relay()
	change(&relay)
	b.Start(relay)
	keys := keysOfOneShard(2)
	for round := range 3 {
		late := b.Tx()
		var all []rehop.Message
		for i := range messages {
			m := ordered(keys[0], "q", fmt.Sprint(round, i))
			m.Body = make([]byte, size)
			all = append(all, m)
		}
		b.Must(b.Box.Publish(b.Context(), late, all...))
		for i := range 10 { // the relay learns that nothing is left before these
			b.Put(ordered(keys[1], "q", fmt.Sprint("other ", round, i)))
			Equal(b, "message", Receive(b, got, "message").ID, fmt.Sprint("other ", round, i))
		}
		b.Must(late.Commit())
		b.Put(ordered(keys[0], "q", fmt.Sprint(round, messages)))
		for i := range messages + 1 {
			if id := Receive(b, got, "message").ID; id != fmt.Sprint(round, i) {
				t.Fatalf("message of the key: got %q, want %q", id, fmt.Sprint(round, i))
			}
		}
	}
}

// lateInOrder: a transaction draws an id, others of its shard with higher ids commit and are published, and it commits later than
// they do. The next message of its key does not overtake it.
func lateInOrder(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Firsts("q")
	b.Start(b.Relay())
	keys := keysOfOneShard(7)
	lateKey, others := keys[0], keys[1:]
	pass := func(id string) {
		t.Helper()
		Equal(b, "message", Receive(b, got, "message").ID, id)
	}
	for i := range 3 {
		b.Put(ordered(others[0], "q", fmt.Sprint("first ", i)))
		pass(fmt.Sprint("first ", i))
	}
	for round := range 5 {
		before := b.Tx()
		_, err := before.ExecContext(b.Context(), "INSERT INTO effect (name) VALUES ('it has a number before the late one')")
		b.Must(err)
		late := b.Tx()
		b.Must(b.Box.Publish(b.Context(), late, ordered(lateKey, "q", fmt.Sprint("late ", round))))
		b.Must(b.Box.Publish(b.Context(), before, ordered(others[round], "q", fmt.Sprint("before ", round))))
		b.Must(before.Commit())
		pass(fmt.Sprint("before ", round))
		for i := range 5 { // the relay looks some more times
			b.Put(To("q", fmt.Sprint("without ", round, i)))
			pass(fmt.Sprint("without ", round, i))
		}
		b.Must(late.Commit())
		b.Put(ordered(lateKey, "q", fmt.Sprint("after ", round)))
		pass(fmt.Sprint("late ", round))
		pass(fmt.Sprint("after ", round))
	}
}

func ordered(key, queue, id string) rehop.Message {
	m := To(queue, id)
	m.OrderKey = key
	return m
}

// held: while messages of some keys are refused, those behind them wait, and others continue.
func held(t *testing.T, b *Bench, keys int) {
	b.Migrate()
	b.Queue("full")
	got := b.Firsts("q")
	b.Faults.Refuse(func(_, key string) bool { return key == "full" })
	told := newRecorder()
	relay := b.Relay()
	relay.Hooks = told.hooks()
	b.Start(relay)
	var messages []rehop.Message
	for i := range keys {
		k := fmt.Sprint("held ", i)
		messages = append(messages, ordered(k, "full", k+" 1"), ordered(k, "q", k+" 2"), ordered(k, "q", k+" 3"))
	}
	b.Put(messages...)
	b.Eventually("all are refused, more than once", func() bool { return told.totals().Retry >= 2*keys })
	var free []rehop.Message
	for i := range 50 {
		k := fmt.Sprint("free ", i)
		free = append(free, ordered(k, "q", k))
	}
	b.Put(free...)
	for range free {
		if id := Receive(b, got, "message of another key").ID; !strings.HasPrefix(id, "free ") {
			t.Errorf("message while some are held: got %q", id)
		}
	}
	Equal(b, "messages that have overtaken", len(got), 0)
	b.Faults.Refuse(nil)
	last := make(map[string]string)
	for range 2 * keys {
		d := Receive(b, got, "message")
		key, n := d.ID[:len(d.ID)-2], d.ID[len(d.ID)-1:]
		if n <= last[key] || n == "3" && last[key] != "2" {
			t.Errorf("%s: got %s after %q", key, n, last[key])
		}
		last[key] = n
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	Equal(b, "messages in the queue that was full", len(b.Faults.Messages("full")), keys)
}

// heldForLong: while a message of a key is refused, another key of its shard is published for a while, and the relay learns where nothing can
// come any more. When the refusals end, the key continues in its order, with a message that is committed just then.
func heldForLong(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Firsts("q")
	told := newRecorder()
	var refused atomic.Value // the id of a message
	refuses := func(m *rehop.Message) bool { return m.ID == refused.Load() }
	relay := b.Relay()
	relay.Hooks, relay.Client, relay.RetryMin, relay.RetryMax = told.hooks(), refuser{b.Client, refuses}, 50*time.Millisecond, 50*time.Millisecond
	b.Start(relay)
	keys := keysOfOneShard(2)
	for round := range 3 {
		id := func(n int) string { return fmt.Sprint("held ", round, " ", n) }
		refused.Store(id(0))
		before := told.totals().Retry
		b.Put(ordered(keys[0], "q", id(0)))
		b.Eventually("the first of the key is refused", func() bool { return told.totals().Retry > before })
		b.Put(ordered(keys[0], "q", id(1)))
		for i := range 10 { // the relay notes a place every tenth of a second at most
			other := fmt.Sprint("other ", round, " ", i)
			refusals := told.totals().Retry
			b.Put(ordered(keys[1], "q", other))
			Equal(b, "message while the key is held", Receive(b, got, "message of another key").ID, other)
			b.Eventually("more refusals", func() bool { return told.totals().Retry > refusals })
		}
		b.Put(ordered(keys[0], "q", id(2)))
		refused.Store("")
		Equal(b, "message", Receive(b, got, "message that was refused").ID, id(0))
		b.Put(ordered(keys[0], "q", id(3)))
		for n := 1; n <= 3; n++ {
			Equal(b, "message of the key", Receive(b, got, "message of the key").ID, id(n))
		}
	}
}

// write publishes in a transaction of its own, from any goroutine. If it is rolled back, then before the end.
func (b *Bench) write(messages []rehop.Message, before func(commit func() error) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	tx, err := b.Begin(ctx)
	if err != nil {
		return err
	}
	if err := b.Box.Publish(ctx, tx, messages...); err != nil {
		_ = tx.Rollback()
		return err
	}
	if before == nil {
		return tx.Commit()
	}
	if err := before(tx.Commit); err != nil {
		_ = tx.Rollback()
	}
	return nil
}

// manyWriters: 64 writers with transactions of all lengths, some of which roll back. What is published is what was committed, and by
// key in the order of the commits.
func manyWriters(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Firsts("q")
	for range 2 {
		relay := b.Relay()
		relay.DB = b.Open(t)
		b.Start(relay)
	}
	const writers, keys = 64, 20
	var (
		mu        sync.Mutex
		committed = make(map[string]bool)
		rolled    = make(map[string]bool)
		inKey     [keys]sync.Mutex
		order     [keys][]string // by commit
	)
	// For the given time, and until enough has happened to show anything.
	deadline, latest := time.Now().Add(b.Writing), time.Now().Add(b.Writing+limit)
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(committed) >= 50 && len(rolled) >= 5
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := 0; time.Now().Before(deadline) || !enough() && time.Now().Before(latest); n++ {
				key, id := rand.IntN(keys), fmt.Sprintf("%d-%d", w, n)
				messages := []rehop.Message{ordered(fmt.Sprint(key), "q", fmt.Sprintf("k%d-%s", key, id)), To("q", "free-"+id)}
				rollback := rand.IntN(4) == 0
				err := b.write(messages, func(commit func() error) error {
					if rand.IntN(2) == 0 {
						<-time.After(rand.N(20 * time.Millisecond)) // what else the transaction does
					}
					if rollback {
						mu.Lock()
						rolled[messages[0].ID], rolled[messages[1].ID] = true, true
						mu.Unlock()
						return errRollback
					}
					// The order of commits is what is seen here, whatever the outbox does.
					inKey[key].Lock()
					defer inKey[key].Unlock()
					if err := commit(); err != nil {
						t.Errorf("commit: %v", err)
						return err
					}
					order[key] = append(order[key], messages[0].ID)
					mu.Lock()
					committed[messages[0].ID], committed[messages[1].ID] = true, true
					mu.Unlock()
					return nil
				})
				if err != nil && !slices.Contains(oneWriter, b.Dialect) { // where writers queue up, one may wait in vain
					t.Errorf("publish: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "last", Key: "q"})) // behind all that was published
	published := make(map[string]int)
	var seen [keys][]string
	for {
		d := Receive(b, got, fmt.Sprintf("message %d of %d", len(published)+1, len(committed)))
		if d.ID == "last" {
			break
		}
		if published[d.ID]++; published[d.ID] > 1 {
			continue
		}
		if rolled[d.ID] || !committed[d.ID] {
			t.Fatalf("%s was published and never committed", d.ID)
		}
		if strings.HasPrefix(d.ID, "k") {
			var key int
			if _, err := fmt.Sscanf(d.ID, "k%d-", &key); err != nil {
				t.Fatal(err)
			}
			seen[key] = append(seen[key], d.ID)
		}
	}
	Equal(b, "messages that were published", len(published), len(committed))
	for key := range keys {
		if !slices.Equal(seen[key], order[key]) {
			t.Errorf("key %d: published in the order\n%v\nwant that of the commits\n%v", key, seen[key], order[key])
		}
	}
	if !enough() {
		t.Errorf("%d messages were committed and %d rolled back: too few to show anything", len(committed), len(rolled))
	}
	t.Logf("%d messages committed, %d rolled back, %d published more than once", len(committed), len(rolled), more(published))
}

func more(published map[string]int) (n int) {
	for _, times := range published {
		if times > 1 {
			n++
		}
	}
	return n
}

var errRollback = errors.New("rolled back")
