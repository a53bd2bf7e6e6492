package subscribing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// Each message of a batch has its own outcome, and only what has failed is tried again.
func TestBatchOutcomes(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		const messages, step = 200, 150 * time.Millisecond
		ch, rec := r.Channel(), kit.NewRecorder()
		c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
		answers := []error{nil, errors.New("not yet"), rehop.Permanent(errors.New("never")), rehop.Discard(errors.New("old"))}
		var seen kit.Tally
		sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 2, Retry: rehop.Steps(step),
			Batch: rehop.Batch{Size: 20, Wait: 50 * time.Millisecond, Handle: func(_ context.Context, all []*rehop.Delivery) error {
				if len(all) > 20 {
					t.Errorf("batch: got %d messages, want at most 20", len(all))
				}
				err := &rehop.BatchError{Errors: make([]error, len(all))}
				for i, d := range all {
					seen.Add(d.ID)
					var n int
					if _, bad := fmt.Sscan(d.ID, &n); bad != nil {
						t.Errorf("message %q: %v", d.ID, bad)
					}
					if d.Attempt == 1 {
						err.Errors[i] = answers[n%len(answers)]
					}
				}
				return err
			}}})
		kit.Publish(t, c, kit.Numbered("q", messages)...)
		const each = messages / 4
		outcomes := make(map[rehop.Outcome]int)
		for range messages + each { // a quarter is tried twice
			outcomes[kit.Receive(t, rec.Results, "result").Outcome]++
		}
		for outcome, want := range map[rehop.Outcome]int{rehop.OutcomeDone: 2 * each, rehop.OutcomeRetry: each, rehop.OutcomeFailed: each, rehop.OutcomeDiscarded: each} {
			if outcomes[outcome] != want {
				t.Errorf("outcome %s: got %d, want %d", outcome, outcomes[outcome], want)
			}
		}
		kit.Drain(t, sub)
		kit.WantDepth(t, r, ch, "q", 0)
		kit.WantDepth(t, r, ch, "q.failed", each)
		seen.WantSum(t, "messages given to the handler", messages+each)
	})
}

// A batch whose connection is lost while it waits is not handled before its messages come again, and none of them is in a batch twice.
func TestBatchSurvivesLostConnection(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		const messages, rounds = 6, 3
		ch, rec := r.Channel(), kit.NewRecorder()
		var w wire
		c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial, Hooks: rec.Hooks()})
		var seen kit.Tally
		sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q",
			Batch: rehop.Batch{Size: 50, Wait: time.Second, Handle: func(_ context.Context, all []*rehop.Delivery) error {
				var ids []string
				for _, d := range all {
					ids = append(ids, d.ID)
					seen.Add(d.ID)
				}
				if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) {
					t.Errorf("batch %v has a message twice", ids)
				}
				return nil
			}}})
		for !kit.Receive(t, rec.Consumers, "consumer is up").Up {
		}
		for round := range rounds {
			for i := range messages {
				kit.Publish(t, c, rehop.Message{ID: fmt.Sprintf("%d of round %d", i, round), Key: "q"})
			}
			w.cut()
			awaitReturn(t, rec)
		}
		lab.Eventually(t, kit.Limit, "all messages handled", func() bool { return seen.Len() == messages*rounds })
		kit.Drain(t, sub)
		kit.WantDepth(t, r, ch, "q", 0)
		kit.WantDepth(t, r, ch, "q.failed", 0)
	})
}
