package rehop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// TestPartitionsTurnsLost: sessions are lost while workers wait for a turn and handlers ignore their contexts; afterwards as many run as before.
func TestPartitionsTurnsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newPartitionLog()
		log.takes = 7 * time.Second
		one := partitioned(log.handler("one"))
		one.Concurrency, one.Timeout, one.StuckAfter, one.StopGrace, one.CrashLimit = 2, 3*time.Second, 2*time.Second, time.Second, 40
		one.Retry = rehop.Steps(time.Second, time.Second, time.Second, time.Second)
		subscribe(t, b.Client, one)
		publishOrdered(t, b, 40, 0, 1)
		for range 20 {
			time.Sleep(4500 * time.Millisecond)
			b.Drop()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		log.mu.Lock()
		log.takes, log.most = time.Second, 0
		log.mu.Unlock()
		start := time.Now()
		for n := range 40 {
			publish(t, b.Client, rehop.Message{Exchange: "shop", OrderKey: fmt.Sprint("new", n), ID: fmt.Sprint("new", n)})
		}
		time.Sleep(19 * time.Second)
		log.mu.Lock()
		defer log.mu.Unlock()
		done := 0
		for n := range 40 {
			done += len(log.ended[fmt.Sprint("new", n)])
		}
		// Two at once end 38 of them, less some pauses between partitions; one at a time 19.
		if log.most != 2 || done < 30 {
			t.Errorf("after %v %d at once, %d of 40 done; want 2 at once all the time", time.Since(start), log.most, done)
		}
	})
}

// TestPartitionsStuckLimit: as many stuck handlers as Concurrency are replaced.
func TestPartitionsStuckLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		running, most := 0, 0
		one := partitioned(rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(2 * time.Hour)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}))
		one.Partitions, one.Concurrency, one.Timeout, one.StuckAfter = 8, 2, time.Second, time.Second
		sub := subscribe(t, b.Client, one)
		for n := range 100 {
			publish(t, b.Client, rehop.Message{Exchange: "shop", OrderKey: fmt.Sprint("k", n)})
		}
		time.Sleep(time.Hour)
		mu.Lock()
		if most > 4 {
			t.Errorf("%d handlers run at once, want at most 2*Concurrency: 2, and 2 that are stuck", most)
		}
		mu.Unlock()
		_ = sub.Stop()
		time.Sleep(3 * time.Hour)
	})
}

// TestPartitionsDrainTurns: Drain with one turn, several partitions and a full backlog ends when the handler that runs has ended.
func TestPartitionsDrainTurns(t *testing.T) {
	for _, how := range []string{"drain", "stop", "close"} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			c := openWith(t, b, func(*rehop.Config) {})
			log := newPartitionLog()
			log.takes = 10 * time.Second
			one := partitioned(log.handler("one"))
			one.Concurrency, one.Partitions, one.Rate = 1, 64, 0.5
			sub := subscribe(t, c, one)
			publishOrdered(t, b, 200, 0, 1)
			time.Sleep(3 * time.Second)
			began := time.Now()
			var err error
			switch how {
			case "drain":
				err = sub.Drain(t.Context())
			case "stop":
				err = sub.Stop()
			case "close":
				err = c.Close(t.Context())
			}
			if took := time.Since(began); took > 15*time.Second || err != nil && how != "stop" {
				t.Errorf("%s took %v, %v", how, took, err)
			}
			time.Sleep(time.Minute)
			_ = c.Close(t.Context())
		})
	}
}

// TestPartitionsReleaseStop: a process stops in the moment in which it releases partitions.
func TestPartitionsReleaseStop(t *testing.T) {
	for _, at := range []time.Duration{0, 900, 1000, 1001, 2000, 3000, 9000, 10000, 11000} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			log := newPartitionLog()
			log.takes = 500 * time.Millisecond
			one := openWith(t, b, func(*rehop.Config) {})
			two := openWith(t, b, func(*rehop.Config) {})
			subscribe(t, one, partitioned(log.handler("one")))
			publishOrdered(t, b, 20, 0, 10)
			subscribe(t, two, partitioned(log.handler("two")))
			time.Sleep(at * time.Millisecond)
			if err := one.Close(t.Context()); err != nil {
				t.Errorf("%v: %v", at, err)
			}
			time.Sleep(10 * time.Minute)
			log.inOrder(t, 20, 10)
			if err := two.Close(t.Context()); err != nil {
				t.Errorf("%v: %v", at, err)
			}
		})
	}
}
