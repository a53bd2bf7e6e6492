package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
)

// broker is a publisher that confirms messages at once, except for those that it refuses or that are too large, and counts what it gets.
type broker struct {
	mu     sync.Mutex
	sent   map[string]int // by message id
	closed atomic.Bool
}

// The ids of a message that is refused once, and of one that is too large.
const (
	refusedID  = "5"
	tooLargeID = "6"
)

func (b *broker) State() rehop.State {
	if b.closed.Load() {
		return rehop.StateClosed
	}
	return rehop.StateOpen
}

func (b *broker) PublishEach(_ context.Context, messages []rehop.Message, settled func(int, error)) {
	for i, m := range messages {
		settled(i, b.answer(m.ID))
	}
}

func (b *broker) answer(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[id]++
	switch {
	case id == tooLargeID:
		return rehop.ErrTooLarge
	case id == refusedID && b.sent[id] == 1:
		return rehop.ErrRefused
	}
	return nil
}

// trial is a relay that publishes messages of all kinds.
type trial struct {
	*server
	broker *broker
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	b := &broker{sent: make(map[string]int)}
	return &trial{newServer(t, b), b}
}

// put commits messages of all kinds. Somebody locks the row of the first for a while.
func (tr *trial) put() {
	tr.server.put("/1", "/2", "k/3", "k/4", "other/"+refusedID, "/"+tooLargeID, largeKey+"/7")
	time.AfterFunc(lockWait+lockWait/2, tr.lock(1))
}

// once is how often messages are sent if none is published again.
var once = map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, refusedID: 2, tooLargeID: 1, "7": 1}

// done reports whether each message was published and its row deleted, or set aside.
func (tr *trial) done() bool { return slices.Equal(tr.left(), []string{tooLargeID + ":3"}) }

// awaitDone waits until everything is done, and returns how long that took.
func (tr *trial) awaitDone() time.Duration {
	tr.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if took := time.Since(began); tr.done() || took > time.Hour {
			return took
		}
	}
}

// wantOnce checks that no message was published again.
func (tr *trial) wantOnce() {
	tr.t.Helper()
	tr.broker.mu.Lock()
	defer tr.broker.mu.Unlock()
	if !maps.Equal(tr.broker.sent, once) {
		tr.t.Errorf("sent: got %v, want %v", tr.broker.sent, once)
	}
}

// wantNothingCanceled checks that each statement had its answer.
func (tr *trial) wantNothingCanceled() {
	tr.t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.canceled) > 0 {
		tr.t.Errorf("canceled: got %q, want nothing", tr.canceled)
	}
}

// startUntil has the relay publish messages until something has begun, unless only a stop begins it.
func (tr *trial) startUntil(began <-chan struct{}) (stop func() time.Duration) {
	stop = tr.start()
	tr.put()
	select {
	case <-began:
	case <-time.After(time.Minute): // it belongs to the stop
	}
	return stop
}

// life has the relay publish messages and take care of the tables, and stops it.
func (tr *trial) life() {
	tr.t.Helper()
	stop := tr.start()
	tr.put()
	tr.awaitDone()
	time.Sleep(2 * careEvery)
	stop()
	tr.wantReturned()
}

// eachStatement calls test for the first statements of each kind in a relay's life.
func eachStatement(t *testing.T, test func(t *testing.T, f fault)) {
	t.Helper()
	var seen map[string]int
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		tr.life()
		tr.wantOnce()
		tr.wantNothingCanceled()
		seen = tr.seen
	})
	for _, kind := range []string{"delete rows", "commit: delete rows", "update rows", "lock what is free", "find what is there", "load", "barrier", "acquire", "renew leases", "release"} {
		if seen[kind] == 0 {
			t.Fatalf("no statement is of the kind %q; got these: %v", kind, seen)
		}
	}
	const most = 6 // those that begin transactions are of one kind
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		for nth := 1; nth <= min(seen[kind], most); nth++ {
			t.Run(fmt.Sprintf("%s %d", kind, nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, fault{of: kind, nth: nth}) })
			})
		}
	}
}

// A statement whose answer is lost is done again, whether the server has executed it or not. No row is forgotten, no message is published
// again, and the relay gives everything back.
func TestLostAnswers(t *testing.T) {
	for name, lost := range map[string]fault{
		"refused": {}, "done": {effect: true}, "silent": {silent: true}, "done and silent": {effect: true, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachStatement(t, func(t *testing.T, f fault) {
				tr := newTrial(t)
				f.effect, f.silent = lost.effect, lost.silent
				tr.faulty = f.hits
				stop := tr.start()
				tr.put()
				if took, most := tr.awaitDone(), tr.run.Timeout+silence; took > most {
					t.Errorf("it was done after %v, want no more than %v", took, most)
				}
				time.Sleep(2 * careEvery)
				if took, most := stop(), 2*tr.run.Lease; took > most {
					t.Errorf("stop: took %v, want no more than %v", took, most)
				}
				tr.wantOnce()
				tr.wantReturned()
			})
		})
	}
}

// The same with many faults, by which a relay loses its leases too. A message that was not published may be tried again then.
func TestManyLostAnswers(t *testing.T) {
	const bad = time.Minute
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random, began := rand.New(rand.NewPCG(seed, 0)), time.Now()
				rate := []float64{0.02, 0.1, 0.3}[seed%3]
				tr := newTrial(t)
				tr.faulty = func(string, int) (f fault, hit bool) {
					return fault{effect: random.IntN(2) == 0, silent: random.IntN(2) == 0}, time.Since(began) < bad && random.Float64() < rate
				}
				stop := tr.start()
				tr.put()
				time.Sleep(bad / 2)
				tr.server.put("/8", "k/9", "other/10", largeKey+"/11")
				time.Sleep(bad / 2)
				tr.awaitDone()
				if took, most := time.Since(began), bad+time.Duration(maxDBTimeout); took > most {
					t.Errorf("it was done after %v, want no more than %v", took, most)
				}
				stop()
				tr.wantReturned()
				for id, times := range tr.broker.sent {
					if want := max(1, once[id]); times != want && id != tooLargeID {
						t.Errorf("message %s: sent %d times, want %d", id, times, want)
					}
				}
			})
		})
	}
}

// A stop interrupts no statement: the server would notice late, and until then keep the locks that the relay needs to give its leases back.
func TestStopInterruptsNoStatement(t *testing.T) {
	eachStatement(t, func(t *testing.T, f fault) {
		tr := newTrial(t)
		began := make(chan struct{})
		f.slow, f.begins = time.Second, func() { close(began) }
		tr.faulty = f.hits
		stop := tr.startUntil(began)
		if took := stop(); took > tr.run.Lease {
			t.Errorf("stop: took %v, want no more than %v", took, tr.run.Lease)
		}
		tr.wantNothingCanceled()
		tr.wantReturned()
	})
}

// A slow server is not taken for one on which somebody has locked the rows: a statement that is interrupted for that keeps its own locks.
func TestSlowWriteIsNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		tr.faulty = fault{of: "delete rows", nth: 1, slow: lockWait + lockWait/2, begins: func() {}}.hits
		stop := tr.start()
		tr.server.put("/1", "/2")
		time.Sleep(2 * lockWait)
		if left := tr.left(); len(left) > 0 {
			t.Errorf("rows: got %q, want none", left)
		}
		stop()
		tr.wantNothingCanceled()
	})
}

// A row whose message was published is locked when the relay is stopped. It is deleted before another relay gets the leases, which would publish
// the message again.
func TestStopDeletesLockedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		release := tr.lock(1)
		stop := tr.start()
		tr.server.put("/1", "/2")
		time.Sleep(lockWait + lockWait/2)
		if left := tr.left(); !slices.Equal(left, []string{"1:0"}) {
			t.Fatalf("rows: got %q, want the one that is locked", left)
		}
		time.AfterFunc(2*lockWait, release) // it does not succeed at once
		stop()
		if left := tr.left(); len(left) > 0 {
			t.Errorf("rows after the stop: got %q, want none", left)
		}
		tr.wantNothingCanceled()
		tr.wantReturned()
	})
}

// A relay that is stopped before it has leases takes none.
func TestStopTakesNoLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		began := make(chan struct{})
		tr.faulty = fault{of: "read leases", nth: 1, slow: time.Second, begins: func() { close(began) }}.hits
		stop := tr.start()
		<-began
		stop()
		if n := tr.seen["acquire"]; n > 0 {
			t.Errorf("got %d statements that take leases, want none", n)
		}
		tr.wantNothingCanceled()
		tr.wantReturned()
	})
}

// A relay whose client was closed returns an error, and gives everything back.
func TestClosedClientEndsRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		tr.put()
		time.AfterFunc(time.Minute, func() { tr.broker.closed.Store(true) })
		if err := tr.run.work(context.Background()); !errors.Is(err, rehop.ErrClosed) {
			t.Errorf("relay: got error %v, want %v", err, rehop.ErrClosed)
		}
		tr.wantOnce()
		tr.wantReturned()
	})
}

// A stop ends although the database does not answer any more, whatever was being done when it went silent.
func TestStopWithoutDatabase(t *testing.T) {
	eachStatement(t, func(t *testing.T, f fault) {
		tr := newTrial(t)
		silent := false
		began := make(chan struct{})
		tr.faulty = func(kind string, nth int) (fault, bool) {
			if kind == f.of && nth == f.nth && !silent {
				silent = true
				close(began)
			}
			return fault{silent: true}, silent
		}
		stop := tr.startUntil(began)
		if took, most := stop(), tr.run.DrainTimeout+5*tr.run.Lease; took > most {
			t.Errorf("stop: took %v, want no more than %v", took, most)
		}
	})
}
