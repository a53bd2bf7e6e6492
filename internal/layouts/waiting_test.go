package layouts

import (
	"math/bits"
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

func TestWaitingIn(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 1, 12, 0, 0, 250e6, time.UTC)
	in := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	died := func(queue string, ago time.Duration, count int) []any {
		return []any{map[string]any{"queue": queue, "reason": "expired", "count": int64(count), "time": now.Add(-ago).Truncate(time.Second)}}
	}
	const ms, s = time.Millisecond, time.Second
	for name, test := range map[string]struct {
		queue   string
		headers map[string]any
		want    Waiting
	}{
		"step":                        {"rehop.step.10s", map[string]any{envelope.Due: in(4 * s)}, Waiting{4*s + ms, ToQueue}},
		"step of a minute":            {"rehop.step.1m", map[string]any{envelope.Due: in(4 * s)}, Waiting{4*s + ms, ToQueue}},
		"step that keeps the key":     {"rehop.step.home.10s", map[string]any{envelope.Due: in(4 * s)}, Waiting{4*s + ms, ToHome}},
		"step without a time":         {"rehop.step.10s", nil, Waiting{10 * s, ToQueue}},
		"step, overdue":               {"rehop.step.10s", map[string]any{envelope.Due: in(-time.Hour)}, Waiting{0, ToQueue}},
		"step, clock behind":          {"rehop.step.10s", map[string]any{envelope.Due: in(time.Hour)}, Waiting{10 * s, ToQueue}},
		"step, published with a time": {"rehop.step.10s", map[string]any{envelope.Until: in(4 * s)}, Waiting{4*s + ms, ToQueue}},
		// 1.6 s + 0.4 s + 0.1 s
		"level":                  {"rehop.delay.04", map[string]any{HeaderTo: ToExchange("x"), "rehop-delay-04": true, "rehop-delay-02": true, "rehop-delay-00": true, envelope.Until: in(s)}, Waiting{s + ms, ToExchange("x")}},
		"level, clock ahead":     {"rehop.delay.04", map[string]any{HeaderTo: ToQueue, "rehop-delay-04": true, "rehop-delay-02": true, "rehop-delay-00": true, envelope.Until: in(-s)}, Waiting{500 * ms, ToQueue}},
		"level, clock behind":    {"rehop.delay.04", map[string]any{HeaderTo: ToHome, "rehop-delay-04": true, "rehop-delay-02": true, "rehop-delay-00": true, envelope.Due: in(time.Hour)}, Waiting{2100 * ms, ToHome}},
		"level without a time":   {"rehop.delay.04", map[string]any{HeaderTo: ToQueue, "rehop-delay-04": true, "rehop-delay-02": true}, Waiting{2 * s, ToQueue}},
		"lower level":            {"rehop.delay.06", map[string]any{HeaderTo: ToQueue, "rehop-delay-07": true, "rehop-delay-06": true, "x-death": died("rehop.delay.07", 3*s, 1)}, Waiting{6400*ms - (2250*ms - 0), ToQueue}},
		"lower level, just come": {"rehop.delay.06", map[string]any{HeaderTo: ToQueue, "x-death": died("rehop.delay.07", 100*ms, 1)}, Waiting{6400 * ms, ToQueue}},
		"lower level, twice":     {"rehop.delay.06", map[string]any{HeaderTo: ToQueue, "x-death": died("rehop.delay.07", 3*s, 2)}, Waiting{6400 * ms, ToQueue}},
		"died elsewhere":         {"rehop.delay.06", map[string]any{HeaderTo: ToQueue, "x-death": died("orders", 3*s, 1)}, Waiting{6400 * ms, ToQueue}},
	} {
		got, ok := WaitingIn(test.queue, test.headers, now)
		if !ok || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, ok, test.want)
		}
	}
	for _, queue := range []string{"orders", "rehop.later.x", "rehop.delay.xx", "rehop.delay.99", "rehop.delay.-1", "rehop.step.", "rehop.step.60s", "orders.landing", "rehop.orphans"} {
		if got, ok := WaitingIn(queue, nil, now); ok {
			t.Errorf("queue %q: got %+v, want that it is not a delay queue", queue, got)
		}
	}
}

// For every delay and every moment at which its message is moved, the new address is not due before the old one.
func TestWaitingInIsNeverShorter(t *testing.T) {
	t.Parallel()
	published := time.Date(2024, 5, 1, 12, 0, 0, 123456789, time.UTC)
	for units := uint64(1); units < 200; units++ {
		delay := time.Duration(units) * DelayUnit
		address, err := CascadeAddress(delay, ToQueue)
		if err != nil {
			t.Fatal(err)
		}
		entered := published
		var deaths []any
		for level := bits.Len64(units) - 1; level >= 0; level-- {
			if address.Headers[levelHeader(level)] != true {
				continue
			}
			leaves := entered.Add(DelayUnit << level)
			for _, at := range []time.Time{entered, entered.Add(DelayUnit << level / 3), leaves.Add(-1)} {
				for _, timed := range []bool{true, false} {
					headers := map[string]any{HeaderTo: ToQueue, "x-death": deaths}
					for name, value := range address.Headers {
						headers[name] = value
					}
					if timed {
						headers[envelope.Until] = published.Add(delay).UnixMilli()
					}
					w, ok := WaitingIn(levelName(level), headers, at)
					if due := at.Add(w.Left); !ok || due.Before(published.Add(delay)) {
						t.Fatalf("delay %v, in level %d after %v, with its time %v: due %v too early", delay, level, at.Sub(published), timed, published.Add(delay).Sub(due))
					}
				}
			}
			deaths = append([]any{map[string]any{"queue": levelName(level), "reason": "expired", "count": int64(1), "time": leaves.Truncate(time.Second)}}, deaths...)
			entered = leaves
		}
	}
}

func TestUnaddressed(t *testing.T) {
	t.Parallel()
	waited := map[string]any{"queue": "rehop.step.10s", "reason": "expired"}
	counted := map[string]any{"queue": "rehop.step.10s", "reason": "expired", envelope.DeathMark: true}
	own := map[string]any{"queue": "orders", "reason": "rejected"}
	got := Unaddressed(map[string]any{"kept": 1, HeaderStep: "10s", "rehop-delay-03": true, envelope.Attempt: int32(2), "x-death": []any{waited, counted, own},
		"x-first-death-queue": "rehop.step.10s", "x-first-death-reason": "expired", "x-last-death-queue": "orders", "x-last-death-reason": "rejected"})
	want := map[string]any{"kept": 1, envelope.Attempt: int32(2), "x-death": []any{counted, own}, "x-last-death-queue": "orders", "x-last-death-reason": "rejected"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Unaddressed(map[string]any{"x-death": []any{waited}}); len(got) != 0 {
		t.Errorf("only delay queues: got %v, want no header", got)
	}
}

func TestFewerLevels(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]time.Duration{
		700 * time.Millisecond:                   800 * time.Millisecond,
		1100 * time.Millisecond:                  1200 * time.Millisecond,
		500 * time.Millisecond:                   800 * time.Millisecond,
		1500*time.Millisecond - time.Microsecond: 1600 * time.Millisecond,
	} {
		if got, ok := FewerLevels(delay); !ok || got != want {
			t.Errorf("%v: got %v, %v, want %v", delay, got, ok, want)
		}
	}
	for _, delay := range []time.Duration{0, DelayUnit, 800 * time.Millisecond, MaxDelay} {
		if got, ok := FewerLevels(delay); ok {
			t.Errorf("%v: got %v, want none", delay, got)
		}
	}
}
