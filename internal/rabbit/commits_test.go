package rabbit

import (
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
)

// A commit is under way until a message has come into the room that it made.
func TestCommits(t *testing.T) {
	var c commits
	for n := range maxCommits {
		if c.areMany() {
			t.Fatalf("%d commits are too many", n)
		}
		c.sent(10 * n)
	}
	if !c.areMany() {
		t.Fatalf("%d commits are not too many", maxCommits)
	}
	for _, step := range []struct{ room, left int }{
		{0, maxCommits}, {1, maxCommits - 1}, {10, maxCommits - 1}, {11, maxCommits - 2}, {31, maxCommits - 4},
	} {
		if c.applied(step.room); len(c.before) != step.left {
			t.Errorf("%d messages came into the room of removed ones: got %d commits under way, want %d", step.room, len(c.before), step.left)
		}
	}
	if c.clear(); len(c.before) > 0 {
		t.Errorf("got %d commits under way, want none", len(c.before))
	}
}

// When nothing comes that shows that the queue has the acks of many commits, a sweep cancels the consumer, whose answer shows it. Without a
// consumer it waits.
func TestManyCommits(t *testing.T) {
	const window = 3 * maxCommits
	for name, c := range map[string]struct {
		messages int
		canceled bool // before the first is removed
		cancels  bool
		took     time.Duration
	}{
		"more messages come":    {messages: 2 * window},
		"no more messages come": {messages: window, cancels: true, took: idleCheck + ackRest},
		"without a consumer":    {messages: 2 * window, canceled: true, cancels: true, took: 2 * ackRest},
	} {
		t.Run(name, func(t *testing.T) {
			eachRelease(t, func(t *testing.T, release broker.Compat) {
				line, _ := heldLine(t, release, none, true)
				publishMore(t, line, c.messages-3)
				s, _, err := line.OpenSweep(t.Context(), "q", SweepOptions{Room: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				s.size = window
				var taken []Batch
				for range window - 1 { // so that it is not filled
					b, err := s.Take(t.Context(), 1, 1<<20, 2*window)
					if err != nil || len(b.Messages) != 1 {
						t.Fatalf("got %d messages and %v, want one", len(b.Messages), err)
					}
					taken = append(taken, b)
				}
				w := taken[0].window
				if c.canceled {
					if err := s.cancel(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				for i, b := range taken {
					if err := s.Remove(t.Context(), b, []uint64{b.Messages[0].DeliveryTag}); err != nil {
						t.Fatalf("message %d: %v", i, err)
					}
					if n := len(w.commits.before); n > maxCommits {
						t.Fatalf("message %d: %d commits are under way, want at most %d", i, n, maxCommits)
					}
					synctest.Wait() // the broker has delivered what there was room for
				}
				if w.canceled != c.cancels {
					t.Errorf("the consumer is canceled: %v, want %v", w.canceled, c.cancels)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if d, err := line.inspect(t.Context(), "q", true); err != nil || d.Messages != c.messages-len(taken) {
					t.Errorf("then the queue has %d messages, %v, want %d", d.Messages, err, c.messages-len(taken))
				}
			})
		})
	}
}

func publishMore(t *testing.T, line *Conn, n int) {
	t.Helper()
	ch, err := line.amqp.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for range n {
		confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp.Publishing{MessageId: NewID()})
		if err != nil || !confirm.Wait() {
			t.Fatalf("publish: %v", err)
		}
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
}
