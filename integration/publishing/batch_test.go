package publishing

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// batchErrors are the outcomes of a batch of n messages.
func batchErrors(t testing.TB, err error, n int) []error {
	t.Helper()
	if err == nil {
		return make([]error, n)
	}
	var be *rehop.BatchError
	if !errors.As(err, &be) {
		t.Fatalf("got %v of type %T, want a *BatchError", err, err)
	}
	if len(be.Errors) != n {
		t.Fatalf("got %d outcomes, want %d", len(be.Errors), n)
	}
	return be.Errors
}

func TestBatchMixedOutcomes(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	hook := &publishHook{outcomes: make(map[string]error)}
	c := open(t, rehop.Config{URL: r.URL, MaxBody: 1000, Exchanges: []rehop.Exchange{{Name: "order"}}, Hooks: []rehop.Hooks{{OnPublishEnd: hook.OnPublishEnd}}})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil, [2]string{"order", "yes.#"})
	messages := []rehop.Message{
		{ID: "0", Exchange: "order", Key: "yes.1"},
		{ID: "1", Exchange: "order", Key: "no.1"},
		{ID: "2", Exchange: "order", Key: "yes.2", Body: make([]byte, 1001)},
		{ID: "3", Exchange: "missing", Key: "yes.1"},
		{ID: "4", Exchange: "order", Key: "yes.3", Headers: map[string]any{"rehop-x": 1}},
		{ID: "5", Key: "missing"},
		{Exchange: "order", Key: "yes.4"},
		{ID: "7", Exchange: "order", Key: strings.Repeat("k", 256)},
		{ID: "8", Exchange: "unknown", Key: "k", Delay: 1},
		{ID: "9", Key: "q"},
	}
	want := []error{nil, rehop.ErrUnroutable, rehop.ErrTooLarge, rehop.ErrUnroutable, rehop.ErrInvalid, rehop.ErrUnroutable, nil, rehop.ErrInvalid, rehop.ErrInvalid, nil}
	err := c.PublishBatch(kit.Context(t), messages)
	got := batchErrors(t, err, len(messages))
	for i := range want {
		if !errors.Is(got[i], want[i]) || (want[i] == nil) != (got[i] == nil) {
			t.Errorf("message %d: got %v, want %v", i, got[i], want[i])
		}
		if told := hook.get(messages[i].ID); told != got[i] {
			t.Errorf("message %d: hook was told %v, want %v", i, told, got[i])
		}
	}
	if want := "7 of 10"; err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
	depth(t, r, ch, "q", 3)
	if err := c.PublishBatch(kit.Context(t), nil); err != nil {
		t.Errorf("empty batch: got %v, want nil", err)
	}
}

func TestBatchLargerThanWindow(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, MaxUnconfirmed: 8})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil)
	messages := make([]rehop.Message, 500)
	for i := range messages {
		messages[i] = rehop.Message{Key: "q", Body: fmt.Append(nil, i)}
	}
	kit.Publish(t, c, messages...)
	got := kit.TakeAll(t, ch, "q")
	if len(got) != len(messages) {
		t.Fatalf("got %d messages, want %d", len(got), len(messages))
	}
	for i, d := range got {
		if string(d.Body) != fmt.Sprint(i) {
			t.Fatalf("message %d: got body %q; want the batch in its order", i, d.Body)
		}
	}
}

// Messages of a batch that have the same id each get their own outcome.
func TestBatchSameIDs(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil, [2]string{"order", "yes"})
	messages := make([]rehop.Message, 40)
	for i := range messages {
		messages[i] = rehop.Message{ID: "same", Exchange: "order", Key: []string{"yes", "no"}[i%2]}
	}
	for i, err := range batchErrors(t, c.PublishBatch(kit.Context(t), messages), len(messages)) {
		if i%2 == 0 && err != nil {
			t.Errorf("message %d: got %v, want nil", i, err)
		} else if i%2 == 1 && !errors.Is(err, rehop.ErrUnroutable) {
			t.Errorf("message %d: got %v, want %v", i, err, rehop.ErrUnroutable)
		}
	}
	depth(t, r, ch, "q", 20)
}

// Batches that are each larger than the window, with ids that they share, do not wait for each other
// forever.
func TestConcurrentBatches(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, MaxUnconfirmed: 4})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil)
	var all sync.WaitGroup
	const batches, each = 4, 150
	for b := range batches {
		all.Go(func() {
			messages := make([]rehop.Message, each)
			for i := range messages {
				n := i
				if b%2 == 1 {
					n = each - 1 - i
				}
				messages[i] = rehop.Message{ID: fmt.Sprint("id", n%50), Key: "q"}
			}
			if err := c.PublishBatch(kit.Context(t), messages); err != nil {
				t.Errorf("batch %d: got %v, want nil", b, err)
			}
		})
	}
	all.Wait()
	depth(t, r, ch, "q", batches*each)
}

// A connection that is lost in the middle of a batch.
func TestBatchSurvivesCut(t *testing.T) {
	t.Parallel()
	for _, noResend := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoResend=%v", noResend), func(t *testing.T) {
			t.Parallel()
			r, ch, w, c := wired(t, rehop.Config{DisableResend: noResend, MaxUnconfirmed: 50})
			kit.Publish(t, c, rehop.Message{Key: "q"})
			tap := w.Newest(t, "publish")
			tap.Hold()
			messages := make([]rehop.Message, 200)
			for i := range messages {
				messages[i] = rehop.Message{ID: fmt.Sprint(i), Key: "q"}
			}
			result := make(chan error, 1)
			go func() { result <- c.PublishBatch(kit.Context(t), messages) }()
			lab.Eventually(t, kit.Limit, "a window of messages on the broker", func() bool { return r.Depth(ch, "q") == 51 })
			_ = tap.Close()
			outcomes := batchErrors(t, <-result, len(messages))
			copies := make(map[string]int)
			for _, d := range kit.TakeAll(t, ch, "q") {
				copies[d.MessageId]++
			}
			for i, err := range outcomes {
				n := copies[fmt.Sprint(i)]
				switch {
				case noResend && i < 50:
					wantError(t, fmt.Sprintf("message %d, sent before the cut", i), err, rehop.ErrUnknown)
					if n != 1 {
						t.Errorf("message %d: got %d copies, want 1", i, n)
					}
				case err != nil:
					t.Errorf("message %d: got %v, want nil", i, err)
				case n < 1 || n > 2 || i >= 50 && n != 1:
					t.Errorf("message %d: got %d copies, want 1, or 2 if it was sent before the cut", i, n)
				}
			}
		})
	}
}
