package layouts_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/layouts"
)

func TestFailedQueue(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 300)
	for _, queue := range []string{
		"", "q", "a.b", "a.failed", "名前", x[:247], x[:248], x[:249], x[:254], x[:255],
		strings.Repeat("ä", 127), strings.Repeat("ä", 127) + "x", "x" + strings.Repeat("ä", 127), strings.Repeat("😀", 63), "xyz" + strings.Repeat("😀", 63),
		strings.Repeat("€", 85),
	} {
		got := layouts.FailedQueue(queue)
		if len(got) > 255 {
			t.Errorf("FailedQueue of %d bytes: got %d bytes, want at most 255", len(queue), len(got))
		}
		if !utf8.ValidString(got) {
			t.Errorf("FailedQueue(%q): got %q, want valid UTF-8", queue, got)
		}
		if !strings.HasSuffix(got, ".failed") {
			t.Errorf("FailedQueue(%q): got %q, want one that ends in .failed", queue, got)
		}
		if len(queue) <= 255-len(".failed") && got != queue+".failed" {
			t.Errorf("FailedQueue(%q): got %q, want %q", queue, got, queue+".failed")
		}
		if got != layouts.FailedQueue(queue) {
			t.Errorf("FailedQueue(%q): got two different names", queue)
		}
	}
}

// Long names that differ only at their end have failed queues of their own.
func TestFailedQueuesDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, base := range []string{strings.Repeat("x", 254), strings.Repeat("ä", 126) + "xx", strings.Repeat("x", 248)} {
		for c := 'a'; c <= 'z'; c++ {
			queue := base + string(c)
			for _, name := range []string{layouts.FailedQueue(queue), layouts.LandingQueue(queue)} {
				if other, ok := seen[name]; ok {
					t.Errorf("%q: got for both %q and %q", name, other, queue)
				}
				seen[name] = queue
			}
		}
	}
}

// Invalid UTF-8 is possible in AMQP names; it must not hang or panic.
func FuzzFailedQueue(f *testing.F) {
	f.Add("q")
	f.Add(strings.Repeat("ä", 127))
	f.Add(strings.Repeat("\xff", 255))
	f.Add("\xff" + strings.Repeat("x", 254))
	f.Fuzz(func(t *testing.T, queue string) {
		if len(queue) > 255 {
			queue = queue[:255]
		}
		got := layouts.FailedQueue(queue)
		if len(got) > 255 || !strings.HasSuffix(got, ".failed") {
			t.Errorf("FailedQueue(%q): got %q, want at most 255 bytes that end in .failed", queue, got)
		}
		if utf8.ValidString(queue) && !utf8.ValidString(got) {
			t.Errorf("FailedQueue(%q): got %q, want valid UTF-8", queue, got)
		}
	})
}

// refusal is the error text of RabbitMQ 4.3, at most 255 characters, if there is no queue of a name.
func refusal(name string) string {
	text := []rune(fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '%s'", name, strings.Repeat("v", 100)))
	return string(text[:min(len(text), 255)])
}

// The names that a queue has while it is replaced fit, and are nobody else's.
func TestMigratingNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, queue := range []string{"q", "q.failed", "rehop.migrating.q", strings.Repeat("x", 250), strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("語", 85),
		strings.Repeat("ä", 127), strings.Repeat("ä", 110), strings.Repeat("ä", 126) + "b", "ä" + strings.Repeat("x", 250)} {
		for _, name := range []string{layouts.MigratingQueue(queue), layouts.AsideExchange(queue), layouts.BackExchange(queue), layouts.LettersExchange(queue), layouts.PauseQueue(queue), layouts.LockQueue(queue)} {
			if text := refusal(name); len(text) > 255 {
				t.Errorf("of %.30q: RabbitMQ 4.3 would refuse with a text of %d bytes, and end the connection: %s", queue, len(text), text)
			}
			if len(name) > 255 || !utf8.ValidString(name) || !strings.HasPrefix(name, "rehop.") || seen[name] {
				t.Errorf("of %.30q: got %q, want a name of rehop's own, of at most 255 bytes", queue, name)
			}
			seen[name] = true
		}
		if back := layouts.Migrated(layouts.MigratingQueue(queue)); len(queue) < 80 && back != queue {
			t.Errorf("the queue of %q: got %q, want %q", layouts.MigratingQueue(queue), back, queue)
		}
	}
}

func TestStepName(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		time.Millisecond: "1ms", 1500 * time.Millisecond: "1.5s", 10 * time.Second: "10s", 100 * time.Second: "1m40s", time.Minute: "1m",
		10 * time.Minute: "10m", 90 * time.Minute: "1h30m", time.Hour: "1h", 2 * time.Hour: "2h", 10 * time.Hour: "10h", 100 * time.Hour: "100h",
		time.Hour + time.Second: "1h0m1s", time.Hour + 10*time.Second: "1h0m10s", 10*time.Minute + 30*time.Second: "10m30s", 20 * time.Minute: "20m",
		100*time.Hour + 20*time.Minute: "100h20m", layouts.MaxDelay: "7456h32m25.5s",
	} {
		if got := layouts.StepName(delay); got != want {
			t.Errorf("StepName(%d ns): got %q, want %q", delay, got, want)
		}
		if got := layouts.StepQueue(delay); got != "rehop.step."+want || !layouts.IsWaitQueue(got) {
			t.Errorf("StepQueue(%v): got %q, want rehop.step.%s", delay, got, want)
		}
		if back, err := time.ParseDuration(layouts.StepName(delay)); err != nil || back != delay {
			t.Errorf("StepName(%v): got %q, which means %v (%v)", delay, layouts.StepName(delay), back, err)
		}
	}
}

func TestStepNamesDiffer(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	seen := make(map[string]time.Duration)
	for range 20_000 {
		delay := time.Duration(1+random.Int64N(int64(layouts.MaxDelay/time.Millisecond))) * time.Millisecond
		if random.IntN(2) == 0 {
			delay = delay.Round(time.Minute) + time.Minute
		}
		name := layouts.StepName(delay)
		if other, ok := seen[name]; ok && other != delay {
			t.Fatalf("StepName: got %q for both %v and %v", name, other, delay)
		}
		seen[name] = delay
	}
}
