package sqlbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

func spillCases() []Case {
	return []Case{
		{Name: "Open", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			got := b.Collect("q")
			b.Must(b.spill(newRecorder()).Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
			Equal(b, "message", Receive(b, got, "message").ID, "1")
			Equal(b, "rows", b.Rows(), 0)
		}},
		{Name: "Unroutable", Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			if err := b.spill(newRecorder()).Publish(b.Context(), rehop.Message{Key: "missing"}); !errors.Is(err, rehop.ErrUnroutable) {
				t.Errorf("got %v, want ErrUnroutable", err)
			}
			Equal(b, "rows", b.Rows(), 0)
		}},
		{Name: "Blocked", Faulty: true, Run: func(t *testing.T, b *Bench) {
			spilled(t, b, rehop.ErrBlocked, b.Faults.Block, b.Faults.Unblock)
		}},
		{Name: "Away", Faulty: true, Run: func(t *testing.T, b *Bench) {
			spilled(t, b, rehop.ErrDisconnected, b.Faults.Down, b.Faults.Up)
		}},
		{Name: "Unknown", Faulty: true, Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Queue("q")
			told := newRecorder()
			s := b.spill(told)
			b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "first", Key: "q"})) // its channel is open now
			b.Faults.HoldConfirms()
			b.Must(s.Publish(b.Context(), rehop.Message{Key: "q"}))
			if err := Receive(b, told.spilled, "reason"); !errors.Is(err, rehop.ErrUnknown) {
				t.Errorf("reason: got %v, want ErrUnknown", err)
			}
			Equal(b, "rows", b.Rows(), 1)
			b.Faults.ReleaseConfirms()
			b.Start(b.Relay())
			all := b.Faults.AwaitMessages("q", 3)
			Equal(b, "ids of both copies", all[1].ID, all[2].ID)
		}},
		{Name: "NeitherWay", Faulty: true, Run: func(t *testing.T, b *Bench) {
			b.Migrate()
			b.Exec("ALTER TABLE rehop_outbox RENAME TO elsewhere")
			b.Faults.Block()
			defer b.Faults.Unblock() // for what is under way
			b.Eventually("the client knows", func() bool { return b.Client.State() == rehop.StateBlocked || b.probe() })
			err := b.spill(newRecorder()).Publish(b.Context(), rehop.Message{Key: "q"})
			if !errors.Is(err, rehop.ErrBlocked) || !strings.Contains(err.Error(), "rehop_outbox") {
				t.Errorf("got %v, want ErrBlocked and why the outbox did not take it", err)
			}
		}},
	}
}

func (b *Bench) spill(told *recorder) outbox.Spill {
	return outbox.Spill{Client: b.Client, Box: b.Box, DB: b.DB, ConfirmTimeout: 500 * time.Millisecond, Hooks: told.hooks()}
}

// probe has a client notice that the broker is blocked: brokers notify only publishers.
func (b *Bench) probe() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_ = b.Client.Publish(ctx, rehop.Message{Key: "q"})
	return b.Client.State() == rehop.StateBlocked
}

// spilled: messages that the broker does not take are in the outbox, and reach the broker later.
func spilled(t *testing.T, b *Bench, reason error, begin, end func()) {
	b.Migrate()
	got := b.Collect("q")
	told := newRecorder()
	s := b.spill(told)
	begin()
	b.Eventually("the client knows", func() bool { return b.Client.State() != rehop.StateOpen || b.probe() })
	for range 3 {
		b.Must(s.Publish(b.Context(), rehop.Message{Key: "q"}))
		if err := Receive(b, told.spilled, "reason"); !errors.Is(err, reason) {
			t.Errorf("reason: got %v, want %v", err, reason)
		}
	}
	Equal(b, "rows", b.Rows(), 3)
	end()
	b.Start(b.Relay())
	for range 3 {
		Receive(b, got, "message")
	}
}
