package sweeps_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/rehoptest"
)

// late makes the first step of a replay or discard take longer than the broker's consumer timeout, while the next batch is not yet removed.
func late(pause time.Duration) func(admin.Progress) {
	paused := false
	return func(admin.Progress) {
		if !paused {
			paused = true
			time.Sleep(pause)
		}
	}
}

// bodies are those of the messages in a queue, with how many have each.
func bodies(b *rehoptest.Broker, queue string) map[string]int {
	all := make(map[string]int)
	for _, m := range b.Messages(queue) {
		all[string(m.Body)]++
	}
	return all
}

// overdue runs a replay and a discard of messages, of which the broker takes back what was not removed yet. They must be where they belong: the
// chosen ones in the queue, or gone, and the others in the failed queue. There is more than one batch of them. The broker's consumer timeout is the
// one that the replay or discard knows, or a shorter one.
func overdue(t *testing.T, all []rehop.Message, o admin.Options, chosen func(i int) bool) {
	taken, kept := make(map[string]int), make(map[string]int)
	for i := range all {
		all[i].Body = fmt.Appendf(nil, "body %d", i)
		if chosen(i) {
			taken[string(all[i].Body)]++
		} else {
			kept[string(all[i].Body)]++
		}
	}
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		for _, timeout := range []time.Duration{30 * time.Minute, 5 * time.Minute} {
			for _, replay := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v/timeout=%v/replay=%v", release, timeout, replay), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b, a := deskOf(t, all, rehoptest.WithServer(func(s *broker.Server) { s.Compat, s.ConsumerTimeout = release, timeout }))
						act, moved := a.Discard, map[string]int{}
						if replay {
							act, moved = a.Replay, taken
						}
						o := o
						o.Progress = late(2 * timeout)
						p, err := act(t.Context(), "q", o)
						if err != nil || p.Done != len(taken) {
							t.Errorf("got %+v and %v, want %d done", p, err, len(taken))
						}
						if got := bodies(b, "q"); !maps.Equal(got, moved) {
							t.Errorf("in the queue: got %d messages, want %d: %v", len(got), len(moved), differ(got, moved))
						}
						if got := bodies(b, "q.failed"); !maps.Equal(got, kept) {
							t.Errorf("in the failed queue: got %d messages, want %d: %v", len(got), len(kept), differ(got, kept))
						}
					})
				})
			}
		}
	}
}

// differ is what is not there as often as it should.
func differ(got, want map[string]int) (all []string) {
	for body, n := range want {
		if got[body] != n {
			all = append(all, fmt.Sprintf("%s: %d, want %d", body, got[body], n))
		}
	}
	for body, n := range got {
		if want[body] == 0 {
			all = append(all, fmt.Sprintf("%s: %d, want none", body, n))
		}
	}
	return all[:min(len(all), 10)]
}

// Two messages have the same id, and only one of them meets the filter. The other one must not be taken for it.
func TestTakenBackSameID(t *testing.T) {
	all := make([]rehop.Message, 600)
	for i := range all {
		// Neighbours have the same id.
		all[i] = rehop.Message{ID: fmt.Sprintf("order %d", i/2), Headers: map[string]any{"take": fmt.Sprint(i%2 == 0)}}
	}
	overdue(t, all, admin.Options{Filter: admin.Filter{Header: map[string]string{"take": "true"}}}, func(i int) bool { return i%2 == 0 })
}

// The last batch is taken back, and is removed when it comes again.
func TestTakenBackLastBatch(t *testing.T) {
	all := make([]rehop.Message, 200)
	for i := range all {
		all[i].ID = fmt.Sprintf("m%d", i)
	}
	overdue(t, all, admin.Options{}, func(int) bool { return true })
}

// The same, although no more than that was to be taken.
func TestTakenBackAtLimit(t *testing.T) {
	all := make([]rehop.Message, 600)
	for i := range all {
		all[i].ID = fmt.Sprintf("m%d", i)
	}
	overdue(t, all, admin.Options{Limit: 200}, func(i int) bool { return i < 200 })
}

// The same, when an alarm of the broker holds up publishers for longer than its consumer timeout.
func TestTakenBackInAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		b, a := desk(t, n)
		b.Block()
		alarm := time.AfterFunc(time.Hour, b.Unblock)
		defer alarm.Stop()
		p, err := a.Replay(t.Context(), "q", admin.Options{})
		if err != nil || p.Done != n {
			t.Errorf("got %+v and %v, want %d done", p, err, n)
		}
		if queue, failed := len(b.Messages("q")), len(b.Messages("q.failed")); queue != n || failed != 0 {
			t.Errorf("got %d messages in the queue and %d in the failed queue, want all %d in the queue", queue, failed, n)
		}
	})
}

// When a replay ends before they come again, the error has the number of messages that may exist twice.
func TestTakenBackAndCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := desk(t, 200)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wait := late(2 * time.Hour)
		_, err := a.Replay(ctx, "q", admin.Options{Progress: func(p admin.Progress) {
			wait(p)
			cancel()
		}})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, admin.ErrRequeued) || !strings.Contains(err.Error(), "up to 128 messages") {
			t.Errorf("got %v, want that it was canceled, and that up to 128 messages may be there twice", err)
		}
		if n := strings.Count(err.Error(), context.Canceled.Error()); n != 1 {
			t.Errorf("got %q, want %q in it once", err, context.Canceled)
		}
	})
}

// What is still looked for has left the queue, while the broker's consumer timeout is shorter than a sweep waits for messages that may be on their
// way. The sweep ends anyway.
func TestTakenBackWhileWaiting(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const timeout = 5 * time.Second
				all := make([]rehop.Message, 10)
				for i := range all {
					all[i].ID = fmt.Sprintf("m%d", i)
				}
				b, a := deskOf(t, all, rehoptest.WithServer(func(s *broker.Server) { s.Compat, s.ConsumerTimeout = release, timeout }))
				ch, end := channelOf(t, b)
				defer end()
				// With this rate one message at a time is fetched: m0 is held, and stays, while the others are purged.
				purged := 0
				p, err := a.Replay(t.Context(), "q", admin.Options{Filter: admin.Filter{IDs: []string{"m9"}}, Rate: 0.1, Progress: func(admin.Progress) {
					if purged == 0 {
						purged, _ = ch.QueuePurge("q.failed", false)
					}
				}})
				if want := (admin.Progress{Seen: 1, Kept: 1, Total: len(all)}); err != nil || p != want || purged != len(all)-1 {
					t.Errorf("got %+v and %v, and %d messages purged; want %+v, and all but one purged", p, err, purged, want)
				}
				if got := len(b.Messages("q.failed")); got != 1 {
					t.Errorf("got %d messages in the failed queue, want the one that was held", got)
				}
			})
		})
	}
}
