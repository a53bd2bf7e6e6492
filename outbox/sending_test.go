package outbox

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
)

// slow is a publisher that answers for some messages only when its context ends, or when the test lets it.
type slow struct {
	state   rehop.State
	keys    map[string]bool // of the messages that it does not answer for
	release chan struct{}
	sent    atomic.Int32
}

func (s *slow) State() rehop.State { return s.state }

func (s *slow) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	var rest []int
	for i, m := range messages {
		s.sent.Add(1)
		if s.keys[m.Key] {
			rest = append(rest, i)
		} else {
			settled(i, nil)
		}
	}
	if len(rest) == 0 {
		return
	}
	var err error
	select {
	case <-ctx.Done():
		err = rehop.ErrUnknown
	case <-s.release:
	}
	for _, i := range rest {
		settled(i, err)
	}
}

// sendSlowly sends messages with some keys, and returns the batch and how long that took.
func sendSlowly(r *run, keys ...string) (*batch, time.Duration) {
	b := newBatch(r, newTerm(time.Now().Add(time.Hour)))
	var some []int
	for i, key := range keys {
		b.rows = append(b.rows, row{id: int64(i), routingKey: key, size: 100})
		b.messages = append(b.messages, rehop.Message{Key: key})
		some = append(some, i)
	}
	b.fates = make([]fate, len(keys))
	began := time.Now()
	if some = b.unsuspected(some); len(some) > 0 {
		b.send(context.Background(), some)
	}
	return b, time.Since(began)
}

func TestSendDoesNotWaitForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{state: rehop.StateOpen, keys: map[string]bool{"stuck": true}, release: make(chan struct{})}
		r := newRun(Relay{Client: s}.withDefaults())
		b, took := sendSlowly(r, "quick", "stuck", "quick")
		if took != maxConfirmWait {
			t.Errorf("took %v, want %v", took, maxConfirmWait)
		}
		if v := []verdict{b.fates[0].verdict, b.fates[1].verdict, b.fates[2].verdict}; v[0] != published || v[1] != retry || v[2] != published {
			t.Errorf("got verdicts %v, want the second postponed and the others published", v)
		}
		if got, want := b.fates[1].wait, 3*r.Timeout; got != want {
			t.Errorf("postponed for %v, want %v: twice the timeout after its end", got, want)
		}
		if got := r.lateBytes.Load(); got != 100 {
			t.Errorf("bytes of messages that are late: got %d, want 100", got)
		}
		close(s.release)
		late := b.late[0]
		if o, open := <-late.outcomes; !open || o.err != nil || late.rows[o.place] != 0 || late.batch.rows[0].id != 1 {
			t.Errorf("late outcome: got %+v, want that of the second row", o)
		}
		synctest.Wait()
	})
}

// A confirm that comes late counts from when it comes, not from when the batch takes it in: that may be waiting for the database, and the message
// would be read, and sent, again.
func TestLateConfirmIsOwedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{state: rehop.StateOpen, keys: map[string]bool{"late": true}, release: make(chan struct{})}
		r := newRun(Relay{Client: s}.withDefaults())
		b, _ := sendSlowly(r, "late")
		if b.fates[0].verdict != retry {
			t.Fatalf("got verdict %v, want postponed", b.fates[0].verdict)
		}
		read := []row{{id: 0, routingKey: "late"}}
		if got := r.owed.without(slices.Clone(read)); len(got) != 1 {
			t.Errorf("before the confirm: got %d rows to send, want 1", len(got))
		}
		close(s.release)
		synctest.Wait()
		if got := r.owed.without(slices.Clone(read)); len(got) != 0 {
			t.Errorf("after the confirm: got %d rows to send, want none", len(got))
		}
	})
}

// While a message is not confirmed no other is sent where it went, and after that one at a time until there is an answer.
func TestSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{state: rehop.StateOpen, keys: map[string]bool{"stuck": true}, release: make(chan struct{})}
		r := newRun(Relay{Client: s}.withDefaults())
		sendSlowly(r, "stuck")
		b, took := sendSlowly(r, "stuck", "quick", "stuck")
		if s.sent.Load() != 2 || took != 0 || !b.fates[0].untried || b.fates[1].verdict != published || b.fates[2].verdict != retry {
			t.Errorf("sent %d in all, the last in %v with fates %+v; want the quick one alone", s.sent.Load(), took, b.fates)
		}
		r.suspects.doneWaiting(destination{key: "stuck"})
		b, _ = sendSlowly(r, "stuck", "stuck", "stuck")
		if s.sent.Load() != 3 || b.fates[0].untried || !b.fates[1].untried || !b.fates[2].untried {
			t.Errorf("sent %d in all, want one more", s.sent.Load())
		}
		r.suspects.remove(destination{key: "stuck"})
		close(s.release)
		if sendSlowly(r, "stuck", "stuck"); s.sent.Load() != 5 {
			t.Errorf("sent %d in all, want all when the broker has answered", s.sent.Load())
		}
		synctest.Wait()
	})
}

// While the broker is away nothing is postponed: all wait for it.
func TestSendWaitsWhileTheBrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{state: rehop.StateRecovering, keys: map[string]bool{"stuck": true}, release: make(chan struct{})}
		r := newRun(Relay{Client: s}.withDefaults())
		b, took := sendSlowly(r, "stuck")
		if took != r.Timeout || b.fates[0].verdict != left || !b.trouble {
			t.Errorf("got verdict %d after %v, want it left after %v", b.fates[0].verdict, took, r.Timeout)
		}
	})
}

// Messages that wait for their confirm may use more memory than their share for some seconds, as a busy broker takes to confirm. Then they are
// given up, and are published again.
func TestLateConfirmOfMuch(t *testing.T) {
	for name, c := range map[string]struct {
		confirmed time.Duration // 0: never
		err       error
		after     time.Duration
	}{
		"in time": {maxCrowded - time.Millisecond, nil, maxCrowded - time.Millisecond},
		"never":   {0, rehop.ErrUnknown, maxCrowded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{state: rehop.StateOpen, keys: map[string]bool{"late": true}, release: make(chan struct{})}
				r := newRun(Relay{Client: s, MaxBytes: 100}.withDefaults())
				if c.confirmed > 0 {
					time.AfterFunc(c.confirmed, func() { close(s.release) })
				}
				b, took := sendSlowly(r, "late")
				d := &dispatcher{run: r}
				next, nextBatch := []row{{size: 90}}, newBatch(r, nil)
				if n, _ := d.take(next, r.MaxBytes, nextBatch); n != 0 {
					t.Error("another message is sent although there is no memory for it")
				}
				began := time.Now()
				o := <-b.late[0].outcomes
				if took += time.Since(began); !errors.Is(o.err, c.err) || took != c.after {
					t.Errorf("got outcome %v after %v, want %v after %v", o.err, took, c.err, c.after)
				}
			})
		})
	}
}
