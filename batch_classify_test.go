package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// Classify decides for each message of a batch that has an error, and for no other.
func TestBatchClassify(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		asked, ends := make(map[string]int), make(map[string]error)
		book := newBatchbook(func(_ context.Context, all []*rehop.Delivery) error {
			err := &rehop.BatchError{Errors: make([]error, len(all))}
			for i, d := range all {
				if d.ID != "ok" && d.Attempt == 1 {
					err.Errors[i] = errors.New(d.ID)
				}
			}
			return err
		})
		client, results := recordResults(t, b, rehop.Hooks{OnHandleEnd: func(_ context.Context, d *rehop.Delivery, _ time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			if ends[d.ID] == nil {
				ends[d.ID] = err
			}
		}})
		batches(t, client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Batch: rehop.Batch{Size: 8, Handle: book.handle},
			Classify: func(d *rehop.Delivery, err error) error {
				mu.Lock()
				defer mu.Unlock()
				asked[d.ID]++
				if err.Error() != d.ID {
					t.Errorf("Classify for message %s: got the error of %v", d.ID, err)
				}
				switch d.ID {
				case "handled":
					return nil
				case "permanent":
					return rehop.Permanent(err)
				case "after":
					return rehop.RetryAfter(7*time.Minute, err)
				case "postpone":
					return rehop.Postpone(time.Hour, err)
				case "discard":
					return rehop.Discard(err)
				case "panic":
					panic("bad policy")
				}
				return err
			}})
		publishNumbers(t, client, "q", "ok", "plain", "handled", "permanent", "after", "postpone", "discard", "panic")
		time.Sleep(time.Second)
		want := map[string]rehop.Result{
			"ok": {Outcome: rehop.OutcomeDone}, "handled": {Outcome: rehop.OutcomeDone},
			"plain": {Outcome: rehop.OutcomeRetry, Kind: rehop.KindError, Delay: time.Minute}, "panic": {Outcome: rehop.OutcomeRetry, Kind: rehop.KindPanic, Delay: time.Minute},
			"permanent": {Outcome: rehop.OutcomeFailed, Kind: rehop.KindPermanent}, "after": {Outcome: rehop.OutcomeRetry, Kind: rehop.KindError, Delay: 7 * time.Minute},
			"postpone": {Outcome: rehop.OutcomePostponed, Delay: time.Hour}, "discard": {Outcome: rehop.OutcomeDiscarded},
		}
		for id, want := range want {
			got := results(id)
			if len(got) != 1 || got[0].Outcome != want.Outcome || got[0].Kind != want.Kind || got[0].Delay != want.Delay {
				t.Errorf("message %s: got %+v, want once %+v", id, got, want)
				continue
			}
			mu.Lock()
			if ends[id] != got[0].Err {
				t.Errorf("message %s: got %v in OnHandleEnd and %v in OnResult, want the same", id, ends[id], got[0].Err)
			}
			mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		once := map[string]int{"plain": 1, "handled": 1, "permanent": 1, "after": 1, "postpone": 1, "discard": 1, "panic": 1}
		if !maps.Equal(asked, once) {
			t.Errorf("calls of Classify: got %v, want one for each message that has an error", asked)
		}
	})
}

// If a whole batch fails, Classify decides for each of its messages. A Classify that ends its goroutine concerns one message, and the place of
// the worker is taken.
func TestBatchClassifyFailures(t *testing.T) {
	const messages = 7
	panicking := func(context.Context, []*rehop.Delivery) error { panic("no luck") }
	exiting := func(context.Context, []*rehop.Delivery) error { runtime.Goexit(); return nil }
	failing := func(context.Context, []*rehop.Delivery) error { return errNotYet }
	late := func(ctx context.Context, _ []*rehop.Delivery) error { <-ctx.Done(); return ctx.Err() }
	for name, test := range map[string]struct {
		handle func(context.Context, []*rehop.Delivery) error
		odd    func(error) error // the policy for messages with an odd number; the others are handled
		kind   rehop.Kind        // of those with an odd number
		text   string
	}{
		"error":                 {failing, rehop.Permanent, "permanent", errNotYet.Error()},
		"panic":                 {panicking, rehop.Permanent, "panic", "no luck"},
		"Goexit":                {exiting, rehop.Permanent, "panic", "the handler called runtime.Goexit"},
		"timeout":               {late, func(err error) error { return err }, "timeout", "deadline exceeded"},
		"panic in Classify":     {failing, func(error) error { panic("bad policy") }, "panic", "bad policy"},
		"Goexit in Classify":    {failing, func(error) error { runtime.Goexit(); return nil }, "panic", "Classify called runtime.Goexit"},
		"Goexit in both":        {exiting, func(error) error { runtime.Goexit(); return nil }, "panic", "Classify called runtime.Goexit"},
		"panic, then Goexit":    {panicking, func(error) error { runtime.Goexit(); return nil }, "panic", "Classify called runtime.Goexit"},
		"Goexit, then a panic":  {exiting, func(error) error { panic("bad policy") }, "panic", "bad policy"},
		"an error that panics":  {failing, func(error) error { return (*odd)(nil) }, "panic", "nil pointer"},
		"Goexit with a message": {exiting, func(err error) error { return fmt.Errorf("policy: %w", err) }, "panic", "policy: the handler called"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client, results := recordResults(t, b)
				batches(t, client, rehop.Subscriber{Queue: "q", Timeout: time.Minute, Retry: rehop.NoRetry(), Batch: rehop.Batch{Size: messages, Handle: test.handle},
					Classify: func(d *rehop.Delivery, err error) error {
						if strings.Contains("1357", d.ID) {
							return test.odd(err)
						}
						return nil
					}})
				for range 2 { // the second time with the worker that has taken the place of the first
					publishNumbers(t, client, "q", "1", "2", "3", "4", "5", "6", "7")
				}
				for _, m := range b.AwaitFailed("q", 8) {
					if m.Kind != test.kind || !strings.Contains(m.Error, test.text) || !strings.Contains("1357", m.ID) {
						t.Errorf("message %s: got kind %q and error %q, want %q and %q", m.ID, m.Kind, m.Error, test.kind, test.text)
					}
				}
				b.AwaitEmpty("q")
				synctest.Wait()
				for _, id := range []string{"2", "4", "6"} {
					if got := results(id); len(got) != 2 || got[0].Outcome != rehop.OutcomeDone || got[1].Outcome != rehop.OutcomeDone {
						t.Errorf("message %s: got %+v, want it done twice", id, got)
					}
				}
			}, rehoptest.WithTimeout(time.Hour))
		})
	}
}

// Classify can find out that something is unavailable, also for a single message of a batch.
func TestBatchClassifyUnavailable(t *testing.T) {
	for name, exits := range map[string]bool{"error": false, "Goexit": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				const down = 30 * time.Second
				book := newBatchbook(nil)
				book.answer = func(_ context.Context, all []*rehop.Delivery) error {
					if book.now() >= down {
						return nil
					}
					if exits {
						runtime.Goexit()
					}
					return errNotYet
				}
				client, events := openPausing(t, b)
				defer client.Close(context.Background())
				batches(t, client, rehop.Subscriber{Queue: "q", ProbeMin: 10 * time.Second, ProbeMax: 10 * time.Second, Batch: rehop.Batch{Size: 3, Handle: book.handle},
					Classify: func(d *rehop.Delivery, err error) error {
						if d.ID == "1" {
							return rehop.Unavailable(err)
						}
						return nil
					}})
				publishNumbers(t, client, "q", "0", "1", "2")
				b.AwaitEmpty("q")
				counts := book.counts()
				if counts["0"] != 1 || counts["2"] != 1 || counts["1"] < 3 {
					t.Errorf("runs: got %v, want one of messages 0 and 2, and several of 1", counts)
				}
				for _, r := range book.calls() {
					for _, d := range r.all {
						if d.Attempt != 1 {
							t.Errorf("message %s: got attempt %d, want 1", d.ID, d.Attempt)
						}
					}
				}
				events.wantOnePause(t)
			}, rehoptest.WithTimeout(time.Hour))
		})
	}
}

// A Classify that blocks is part of the batch's run: the batch is replaced, or goes back at a stop, with all of its messages. After that Classify
// is not called for the others.
func TestBatchClassifyThatBlocks(t *testing.T) {
	for name, stops := range map[string]bool{"stuck": false, "stop": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				var mu sync.Mutex
				asked := 0
				client, results := recordResults(t, b)
				book := newBatchbook(func(context.Context, []*rehop.Delivery) error { return errNotYet })
				sub := batches(t, client, rehop.Subscriber{Queue: "q", Timeout: time.Minute, StuckAfter: 10 * time.Second, StopGrace: 3 * time.Second, Retry: rehop.NoRetry(),
					Batch: rehop.Batch{Size: 3, Handle: book.handle}, Classify: func(d *rehop.Delivery, err error) error {
						mu.Lock()
						asked++
						mu.Unlock()
						time.Sleep(time.Hour)
						return nil
					}})
				publishNumbers(t, client, "q", "1", "2", "3")
				synctest.Wait()
				want := rehop.Result{Outcome: rehop.OutcomeFailed, Kind: rehop.KindTimeout}
				if stops {
					want = rehop.Result{Outcome: rehop.OutcomeReturned}
					if err := sub.Stop(); err == nil || !strings.Contains(err.Error(), "1 handlers still run") {
						t.Errorf("stop: got %v, want an error about one handler", err)
					}
				}
				time.Sleep(5 * time.Hour)
				for _, id := range []string{"1", "2", "3"} {
					if got := results(id); len(got) != 1 || got[0].Outcome != want.Outcome || got[0].Kind != want.Kind {
						t.Errorf("message %s: got %+v, want once %+v", id, got, want)
					}
				}
				if mu.Lock(); asked != 1 {
					t.Errorf("calls of Classify: got %d, want 1", asked)
				}
				mu.Unlock()
			}, rehoptest.WithTimeout(10*time.Hour))
		})
	}
}

// Classify is not called for a batch that a stop has canceled: its messages go back.
func TestBatchClassifyNotAtStop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(ctx context.Context, _ []*rehop.Delivery) error { <-ctx.Done(); return ctx.Err() })
		sub := batches(t, b.Client, rehop.Subscriber{Queue: "q", Batch: rehop.Batch{Size: 3, Handle: book.handle},
			Classify: func(_ *rehop.Delivery, err error) error {
				t.Errorf("Classify was called with %v", err)
				return nil
			}})
		publishNumbers(t, b.Client, "q", "1", "2", "3")
		synctest.Wait()
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
		if ready, _ := b.Depth("q"); ready != 3 {
			t.Errorf("left: got %d, want 3", ready)
		}
	})
}
