package publishing

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// The broker has the message, its confirm never comes, and the connection is cut.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, noResend := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoResend=%v", noResend), func(t *testing.T) {
			t.Parallel()
			r, ch, w, c := wired(t, rehop.Config{DisableResend: noResend})
			kit.Publish(t, c, rehop.Message{ID: "first", Key: "q"})
			tap := w.Newest(t, "publish")
			tap.Hold()
			result := make(chan error, 1)
			go func() { result <- c.Publish(kit.Context(t), rehop.Message{ID: "doubtful", Key: "q"}) }()
			lab.Eventually(t, kit.Limit, "message on the broker", func() bool { return r.Depth(ch, "q") == 2 })
			select {
			case err := <-result:
				t.Fatalf("got %v before any confirm", err)
			default:
			}
			_ = tap.Close()
			err := <-result
			copies := 0
			for _, d := range kit.TakeAll(t, ch, "q") {
				if d.MessageId == "doubtful" {
					copies++
				}
			}
			if noResend {
				wantError(t, "with NoResend", err, rehop.ErrUnknown)
				if copies != 1 {
					t.Errorf("with NoResend: got %d copies, want 1", copies)
				}
			} else {
				if err != nil {
					t.Errorf("got %v, want nil: sent again", err)
				}
				if copies != 2 {
					t.Errorf("got %d copies with the same id, want 2", copies)
				}
			}
			if err := c.Publish(kit.Context(t), rehop.Message{Key: "q"}); err != nil {
				t.Errorf("afterwards: got %v, want nil", err)
			}
		})
	}
}

// The context ends while the confirm is awaited.
func TestUnknownByContext(t *testing.T) {
	t.Parallel()
	r, ch, w, c := wired(t, rehop.Config{MaxUnconfirmed: 1})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	release := w.Newest(t, "publish").Hold()
	ctx, cancel := context.WithCancel(kit.Context(t))
	result := make(chan error, 1)
	go func() { result <- c.Publish(ctx, rehop.Message{Key: "q"}) }()
	lab.Eventually(t, kit.Limit, "message on the broker", func() bool { return r.Depth(ch, "q") == 2 })
	cancel()
	err := <-result
	wantError(t, "canceled before the confirm", err, rehop.ErrUnknown)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to be context.Canceled, too", err)
	}
	// It keeps its place in the window, which has only one, until the confirm has come.
	err = c.Publish(kit.Timeout(t, 100*time.Millisecond), rehop.Message{Key: "q"})
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a full window: got %v, want deadline exceeded", err)
	}
	release()
	if err := c.Publish(kit.Context(t), rehop.Message{Key: "q"}); err != nil {
		t.Errorf("after the confirm: got %v, want nil", err)
	}
	depth(t, r, ch, "q", 3)
}

// A connection on which nothing comes back any more, before anything was published: the context
// still bounds the call.
func TestStalledConnectionObeysContext(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]rehop.Message{
		"default exchange": {Key: "q"},
		"named exchange":   {Exchange: "amq.topic", Key: "q"},
		"delayed":          {Key: "q", Delay: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, w, c := wired(t, rehop.Config{})
			release := w.Newest(t, "publish").Hold()
			defer release()
			result := make(chan error, 1)
			go func() { result <- c.Publish(kit.Timeout(t, 300*time.Millisecond), message) }()
			err := kit.Receive(t, result, "end of Publish, whose context has ended")
			if err == nil {
				t.Error("got nil, want an error")
			}
			promised(t, err)
		})
	}
}

// promised checks that an error is one of those that Publish documents.
func promised(t testing.TB, err error) {
	t.Helper()
	for _, o := range outcomes {
		if errors.Is(err, o) {
			return
		}
	}
	if err != nil {
		t.Errorf("got %v, which is none of the documented outcomes", err)
	}
}

// Connections are cut again and again while many publish: every nil is in the queue, and a message is
// there at most once more for each cut.
func TestCutsWhilePublishing(t *testing.T) {
	t.Parallel()
	_, ch, w, c := wired(t, rehop.Config{})
	const publishers, each, cuts = 16, 60, 6
	type outcome struct {
		id  string
		err error
	}
	results := make(chan outcome, publishers*each)
	for p := range publishers {
		go func() {
			for i := range each {
				id := fmt.Sprintf("%d.%d", p, i)
				results <- outcome{id, c.Publish(kit.Context(t), rehop.Message{ID: id, Key: "q"})}
			}
		}()
	}
	confirmed := make(map[string]bool)
	for n := range publishers * each {
		o := <-results
		if o.err != nil {
			t.Errorf("message %s: got %v, want nil", o.id, o.err)
		} else {
			confirmed[o.id] = true
		}
		if n%(publishers*each/(cuts+1)) == 100 {
			_ = w.Newest(t, "publish").Close()
		}
	}
	copies := make(map[string]int)
	for _, d := range kit.TakeAll(t, ch, "q") {
		copies[d.MessageId]++
	}
	for id := range confirmed {
		if n := copies[id]; n < 1 || n > 1+cuts+1 {
			t.Errorf("message %s: got %d copies, want 1 and one more for each cut at most", id, n)
		}
	}
}
