package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// partitionLog is a handler that writes down which process has handled which message of which queue.
type partitionLog struct {
	fails   func(d *rehop.Delivery) bool
	takes   time.Duration
	mu      sync.Mutex
	ended   map[string][]string        // by key
	by      map[string]map[string]bool // process: queues
	running int
	most    int
}

func newPartitionLog() *partitionLog {
	return &partitionLog{fails: func(*rehop.Delivery) bool { return false }, ended: make(map[string][]string), by: make(map[string]map[string]bool)}
}

// handler is the handler of a process.
func (l *partitionLog) handler(process string) rehop.Handler {
	return rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		l.mu.Lock()
		l.running++
		l.most = max(l.most, l.running)
		l.mu.Unlock()
		time.Sleep(l.takes) // virtual time
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
		if l.fails(d) {
			return errNotYet
		}
		if l.by[process] == nil {
			l.by[process] = make(map[string]bool)
		}
		l.by[process][d.Queue] = true
		l.ended[d.OrderKey] = append(l.ended[d.OrderKey], d.ID)
		return nil
	})
}

// forget lets the log forget who has handled what.
func (l *partitionLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.by)
}

// queues are the queues of which a process has handled messages.
func (l *partitionLog) queues(process string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.by[process]))
}

// of returns what has ended with a key.
func (l *partitionLog) of(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ended[key])
}

// inOrder fails the test unless all messages of all keys have ended in their order.
func (l *partitionLog) inOrder(t *testing.T, keys, each int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range keys {
		var want []string
		for n := range each {
			want = append(want, fmt.Sprintf("k%d/%03d", key, n))
		}
		if got := l.ended[fmt.Sprint("k", key)]; !slices.Equal(got, want) {
			t.Errorf("of k%d have ended %v, want %v", key, got, want)
		}
	}
}

// publishOrdered publishes messages of many keys, from the first to the last of each.
func publishOrdered(t *testing.T, b *rehoptest.Broker, keys, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		for key := range keys {
			publish(t, b.Client, rehop.Message{Exchange: "shop", Key: "order.changed", OrderKey: fmt.Sprint("k", key), ID: fmt.Sprintf("k%d/%03d", key, n)})
		}
	}
}

// partitioned is a subscriber with four partitions.
func partitioned(handler rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: "orders", Exchange: "shop", Handler: handler, OrderBy: rehop.OrderKey, Partitions: 4, Concurrency: 3,
		Retry: rehop.Steps(10 * time.Second)}
}

// TestPartitions: the messages of each key are handled in order, in several queues, by no more handlers at once than
// Concurrency allows. What fails for good is in one failed queue, and a replay returns it to its partition.
func TestPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newPartitionLog()
		log.takes = 100 * time.Millisecond
		log.fails = func(d *rehop.Delivery) bool {
			return d.ID == "k3/001" && d.Attempt == 1 || strings.HasPrefix(d.OrderKey, "bad") && d.Replays == 0
		}
		subscribe(t, b.Client, partitioned(log.handler("one")))
		publishOrdered(t, b, 20, 0, 5)
		publish(t, b.Client, rehop.Message{Exchange: "shop", Key: "order.changed", OrderKey: "bad 1", ID: "bad/1"})
		publish(t, b.Client, rehop.Message{Exchange: "shop", Key: "order.changed", ID: "without"})
		publish(t, b.Client, rehop.Message{Key: "orders", OrderKey: "direct", ID: "direct/1"})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		log.inOrder(t, 20, 5)
		if got := log.queues("one"); !slices.Equal(got, []string{"orders", "orders.split.01", "orders.split.02", "orders.split.03"}) {
			t.Errorf("messages came from %v, want all partitions", got)
		}
		log.mu.Lock()
		most := log.most
		log.mu.Unlock()
		if most > 3 {
			t.Errorf("%d handlers ran at once, want at most 3", most)
		}
		for _, key := range []string{"", "direct"} {
			if len(log.of(key)) != 1 {
				t.Errorf("of the key %q have ended %v, want one", key, log.of(key))
			}
		}
		b.AwaitFailed("orders", 1)
		failed, err := openAdmin(t, b).Replay(t.Context(), "orders", admin.Options{})
		if err != nil || failed.Done != 1 {
			t.Fatal(failed, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := log.of("bad 1"); len(got) != 1 {
			t.Errorf("after the replay have ended %v, want bad/1", got)
		}
	})
}

// TestPartitionsAreShared: processes that come and go share the partitions evenly, and order is kept.
func TestPartitionsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newPartitionLog()
		log.fails = func(d *rehop.Delivery) bool { return d.ID == "k7/003" && d.Attempt == 1 }
		clients := make(map[string]*rehop.Client)
		wantShares := func(what string, want map[string]int) {
			t.Helper()
			for process, n := range want {
				if got := log.queues(process); len(got) != n {
					t.Errorf("%s: process %s has handled messages of %v, want %d partitions", what, process, got, n)
				}
			}
		}
		for _, process := range []string{"one", "two"} {
			clients[process] = openWith(t, b, func(*rehop.Config) {})
			subscribe(t, clients[process], partitioned(log.handler(process)))
		}
		publishOrdered(t, b, 20, 0, 2)
		time.Sleep(time.Minute)
		log.forget()
		publishOrdered(t, b, 20, 2, 4)
		time.Sleep(time.Minute)
		wantShares("two processes", map[string]int{"one": 2, "two": 2})

		for _, process := range []string{"three", "four"} {
			clients[process] = openWith(t, b, func(*rehop.Config) {})
			subscribe(t, clients[process], partitioned(log.handler(process)))
		}
		time.Sleep(5 * time.Minute)
		log.forget()
		publishOrdered(t, b, 20, 4, 6)
		time.Sleep(time.Minute)
		wantShares("four processes", map[string]int{"one": 1, "two": 1, "three": 1, "four": 1})

		for _, process := range []string{"one", "three", "four"} {
			if err := clients[process].Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		log.forget()
		publishOrdered(t, b, 20, 6, 8)
		time.Sleep(time.Minute)
		wantShares("one process", map[string]int{"two": 4})
		log.inOrder(t, 20, 8)
		if err := clients["two"].Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPartitionsOfBacklog: a process that comes because there is too much to do gets its share at once, and not when the messages that
// are already there have been handled. A process that was there before this one gets none.
func TestPartitionsOfBacklog(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newPartitionLog()
		log.takes = time.Second
		gone := subscribe(t, b.Client, partitioned(log.handler("gone")))
		waits := openWith(t, b, func(*rehop.Config) {})
		subscribe(t, waits, partitioned(log.handler("gone")))
		time.Sleep(time.Minute)
		if err := errors.Join(gone.Stop(), waits.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		publishOrdered(t, b, 100, 0, 6)
		time.Sleep(time.Minute)
		subscribe(t, b.Client, partitioned(log.handler("one")))
		time.Sleep(time.Minute)
		if got := log.queues("one"); len(got) != 4 {
			t.Errorf("the only process has handled messages of %v, want all partitions", got)
		}
		second := openWith(t, b, func(*rehop.Config) {})
		subscribe(t, second, partitioned(log.handler("two")))
		time.Sleep(time.Minute)
		if got := log.queues("two"); len(got) != 2 {
			t.Errorf("the second process has handled messages of %v, want two partitions", got)
		}
		time.Sleep(5 * time.Minute)
		log.inOrder(t, 100, 6)
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPartitionsHalt: operators' tools reach all partitions of a queue.
func TestPartitionsHalt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newPartitionLog()
		log.fails = func(d *rehop.Delivery) bool { return strings.HasSuffix(d.ID, "/000") && d.Replays == 0 }
		halting := partitioned(log.handler("one"))
		halting.AfterFail, halting.Retry = rehop.Halt, rehop.NoRetry()
		subscribe(t, b.Client, halting)
		publishOrdered(t, b, 20, 0, 2)
		time.Sleep(time.Minute)
		a := openAdmin(t, b)
		held, total, err := a.Held(t.Context(), "orders")
		blocks := 0
		for _, m := range held {
			if m.Blocks {
				blocks++
			}
		}
		if err != nil || blocks != 20 || total != len(held) {
			t.Fatalf("%d messages block, %d of %d are listed, %v; want 20", blocks, len(held), total, err)
		}
		for _, m := range held {
			if full, err := a.HeldMessage(t.Context(), "orders", m.ID); m.Blocks != errors.Is(err, admin.ErrNotHeld) || !m.Blocks && (err != nil || full.ID != m.ID) {
				t.Errorf("%s, which blocks its key: %v, is %+v, %v", m.ID, m.Blocks, full, err)
			}
		}
		if err := a.Skip(t.Context(), "orders", "k5/000"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := log.of("k5"); !slices.Equal(got, []string{"k5/001"}) {
			t.Errorf("after the skip have ended %v, want k5/001", got)
		}
		if _, err := a.Replay(t.Context(), "orders", admin.Options{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := log.of("k4"); !slices.Equal(got, []string{"k4/000", "k4/001"}) {
			t.Errorf("after the replay have ended %v, want k4/000 and k4/001", got)
		}
	})
}

// TestPartitionsTurns: a stop from inside does nothing, and a handler that is stuck or ends its goroutine keeps no turn.
func TestPartitionsTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var sub *rehop.Subscription
		inside := make(chan error, 1)
		log := newPartitionLog()
		handler := log.handler("one")
		one := partitioned(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			switch d.ID {
			case "stuck":
				if d.Attempt == 1 {
					time.Sleep(5 * time.Minute)
				}
			case "exits":
				if d.Attempt == 1 {
					runtime.Goexit()
				}
			case "stops":
				inside <- sub.Stop()
			}
			return handler.Handle(ctx, d)
		}))
		one.Concurrency, one.Timeout, one.StuckAfter = 1, time.Second, time.Second
		sub = subscribe(t, b.Client, one)
		for _, id := range []string{"stuck", "exits", "stops"} {
			publish(t, b.Client, rehop.Message{Exchange: "shop", OrderKey: id, ID: id})
		}
		publishOrdered(t, b, 20, 0, 3)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		log.inOrder(t, 20, 3)
		if err := <-inside; err == nil {
			t.Error("Stop in a handler returned no error")
		}
		time.Sleep(5 * time.Minute)
	})
}

// TestManyPartitions: with more than eight partitions, messages of all of them arrive, each in its order.
func TestManyPartitions(t *testing.T) {
	for _, number := range []int{2, 16} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			log := newPartitionLog()
			many := partitioned(log.handler("one"))
			many.Partitions = number
			subscribe(t, b.Client, many)
			publishOrdered(t, b, 200, 0, 2)
			time.Sleep(time.Minute)
			synctest.Wait()
			log.inOrder(t, 200, 2)
			if got := log.queues("one"); len(got) != number {
				t.Errorf("messages came from %d queues, want %d: %v", len(got), number, got)
			}
		})
	}
}

// TestOtherPartitions: a process with another number of partitions is refused, as it would spread keys over other queues.
func TestOtherPartitions(t *testing.T) {
	for _, number := range []int{1, 2, 8} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			log := newPartitionLog()
			subscribe(t, b.Client, partitioned(log.handler("one")))
			other := partitioned(log.handler("two"))
			other.Partitions = number
			_, err := b.Client.Subscribe(t.Context(), other)
			if _, refused := errors.AsType[*rehop.TopologyError](err); !refused || !strings.Contains(err.Error(), "another number of partitions") {
				t.Errorf("%d partitions: got %v, want a TopologyError that names the cause", number, err)
			}
		})
	}
	for name, wrong := range map[string]rehop.Subscriber{
		"a power of two": {Queue: "q", OrderBy: byKey, Partitions: 3},
		"from 1 to 64":   {Queue: "q", OrderBy: byKey, Partitions: 128},
		"OrderBy is not": {Queue: "q", Partitions: 2},
		"a partition of": {Queue: "q.split.01", OrderBy: byKey},
		"at most":        {Queue: strings.Repeat("q", 250), OrderBy: byKey, Partitions: 2},
	} {
		wrong.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
		if _, err := rehop.Topology(rehop.Config{}, wrong); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}

// TestOrderKeyHeaders: the key is sent as headers, whichever way it is set, and is there again in the handler.
func TestOrderKeyHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		got := make(chan rehop.Message, 10)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Exchange: "e", Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			got <- d.Message
			return nil
		})})
		for _, m := range []rehop.Message{
			{Exchange: "e", OrderKey: "k"},
			{Key: "q", OrderKey: "k", Headers: map[string]any{"tenant": "a"}},
			{Key: "q", Headers: map[string]any{"order-key": "k", "order-slot": "wrong"}},
			{Key: "q", OrderKey: "k", Headers: map[string]any{"order-key": "other"}},
		} {
			publish(t, b.Client, m)
			d := <-got
			if d.OrderKey != "k" || d.Headers["order-key"] != "k" || d.Headers["order-slot"] != "2" || d.Headers["order-slot-2"] != "5" || d.Headers["tenant"] != m.Headers["tenant"] {
				t.Errorf("published %+v, got the key %q and the headers %v", m, d.OrderKey, d.Headers)
			}
		}
	})
}
