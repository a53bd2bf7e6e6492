package rehop

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
)

func waits(s Schedule) []time.Duration {
	var all []time.Duration
	for n := 1; ; n++ {
		d, again := s.after(n)
		if !again {
			return all
		}
		all = append(all, d)
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		schedule Schedule
		want     []time.Duration
	}{
		"steps":              {Steps(s, 2*s, time.Hour), []time.Duration{s, 2 * s, time.Hour}},
		"same step twice":    {Steps(s, s), []time.Duration{s, s}},
		"no retry":           {NoRetry(), nil},
		"exponential":        {Exponential(s, 2, 10*s, 6), []time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s}},
		"constant":           {Exponential(s, 1, s, 4), []time.Duration{s, s, s}},
		"fraction":           {Exponential(100*time.Millisecond, 1.5, s, 4), []time.Duration{100 * time.Millisecond, 150 * time.Millisecond, 225 * time.Millisecond}},
		"one attempt":        {Exponential(s, 2, 10*s, 1), nil},
		"up to the longest":  {Exponential(s, 1e9, layouts.MaxDelay, 4), []time.Duration{s, layouts.MaxDelay, layouts.MaxDelay}},
		"default":            {Subscriber{}.withDefaults(layouts.Native{}).Retry, []time.Duration{10 * s, 100 * s, time.Hour, 2 * time.Hour, 10 * time.Hour}},
		"immediate is apart": {Steps(s).WithImmediate(3), []time.Duration{s}},
	} {
		if err := test.schedule.validate(); err != nil {
			t.Errorf("%s: got %v, want it valid", name, err)
		}
		if got := waits(test.schedule); !slices.Equal(got, test.want) {
			t.Errorf("%s: got waits %v, want %v", name, got, test.want)
		}
		if got := test.schedule.MaxAttempts(); got != len(test.want)+1 {
			t.Errorf("%s: got %d attempts, want %d", name, got, len(test.want)+1)
		}
	}
}

// A factor that overflows any number must still end at the longest wait.
func TestExponentialDoesNotOverflow(t *testing.T) {
	t.Parallel()
	s := Exponential(time.Millisecond, 1000, time.Hour, 1_000_000)
	for _, n := range []int{1, 10, 100, 1000, 999_999} {
		if d, again := s.after(n); !again || d <= 0 || d > time.Hour {
			t.Errorf("after %d failures: got %v, %v; want a wait of at most an hour", n, d, again)
		}
	}
	if _, again := s.after(1_000_000); again {
		t.Error("after the last attempt: got another, want none")
	}
	if _, again := s.after(2_000_000); again {
		t.Error("after more attempts than there are: got another, want none")
	}
}

func TestJitterNeverShortens(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Schedule{
		"steps": Steps(time.Second, time.Minute, layouts.MaxDelay), "exponential": Exponential(time.Second, 3, time.Hour, 10),
	} {
		for _, fraction := range []float64{0.1, 0.5, 1, 10} {
			jittered := s.WithJitter(fraction)
			spread := make(map[time.Duration]bool)
			for range 500 {
				for n := 1; n < s.maxAttempts; n++ {
					plain, _ := s.after(n)
					got, again := jittered.after(n)
					most := min(plain+time.Duration(fraction*float64(plain)), layouts.MaxDelay)
					if !again || got < plain || got > most {
						t.Fatalf("%s with jitter %v, wait %d: got %v, want from %v to %v", name, fraction, n, got, plain, most)
					}
					if n == 1 {
						spread[got] = true
					}
				}
			}
			if len(spread) < 100 {
				t.Errorf("%s with jitter %v: got %d different first waits of 500, want them spread", name, fraction, len(spread))
			}
		}
	}
}

// Each distinct wait of a list has a queue; random ones have none.
func TestFixedWaits(t *testing.T) {
	t.Parallel()
	if got, want := Steps(time.Second, time.Minute).fixed(), []time.Duration{time.Second, time.Minute}; !slices.Equal(got, want) {
		t.Errorf("steps: got %v, want %v", got, want)
	}
	for name, s := range map[string]Schedule{"jitter": Steps(time.Second).WithJitter(0.1), "exponential": Exponential(time.Second, 2, time.Minute, 5)} {
		if got := s.fixed(); len(got) != 0 {
			t.Errorf("%s: got %v, want none", name, got)
		}
	}
}

func TestScheduleIsAValue(t *testing.T) {
	t.Parallel()
	plain := Steps(time.Second)
	_ = plain.WithJitter(0.5)
	_ = plain.WithImmediate(3)
	if plain.jitter != 0 || plain.immediate != 0 {
		t.Errorf("got jitter %v, immediate %d; want the original unchanged", plain.jitter, plain.immediate)
	}
	delays := []time.Duration{time.Second, time.Minute}
	s := Steps(delays...)
	delays[0] = time.Hour
	if got := waits(s)[0]; got != time.Second {
		t.Errorf("after the caller's slice has changed: got %v, want 1s", got)
	}
}

// Settings of a zero schedule apply to the default one.
func TestZeroScheduleKeepsItsSettings(t *testing.T) {
	t.Parallel()
	got := Subscriber{Retry: Schedule{}.WithImmediate(2).WithJitter(0.2)}.withDefaults(layouts.Native{}).Retry
	if got.immediate != 2 || got.jitter != 0.2 || got.MaxAttempts() != 6 {
		t.Errorf("got immediate %d, jitter %v, %d attempts; want 2, 0.2, 6", got.immediate, got.jitter, got.MaxAttempts())
	}
}

func TestScheduleValidation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schedule Schedule
		want     []string
	}{
		"zero step":         {Steps(0), []string{"step 1"}},
		"negative step":     {Steps(time.Second, -1), []string{"step 2"}},
		"too long":          {Steps(layouts.MaxDelay + 1), []string{"step 1"}},
		"below a ms":        {Steps(1500 * time.Microsecond), []string{"whole number of milliseconds"}},
		"several":           {Steps(0, time.Second, -time.Second).WithJitter(-1).WithImmediate(-2), []string{"step 1", "step 3", "jitter", "immediate"}},
		"jitter":            {Steps(time.Second).WithJitter(11), []string{"jitter"}},
		"jitter NaN":        {Steps(time.Second).WithJitter(math.NaN()), []string{"jitter"}},
		"first":             {Exponential(0, 2, time.Hour, 3), []string{"first wait"}},
		"first beyond max":  {Exponential(time.Hour, 2, time.Minute, 3), []string{"longest wait"}},
		"factor":            {Exponential(time.Second, 0.5, time.Hour, 3), []string{"factor"}},
		"factor zero":       {Exponential(time.Second, 0, time.Hour, 3), []string{"factor"}},
		"factor NaN":        {Exponential(time.Second, math.NaN(), time.Hour, 3), []string{"factor"}},
		"factor infinite":   {Exponential(time.Second, math.Inf(1), time.Hour, 3), []string{"factor"}},
		"all zero":          {Exponential(0, 0, 0, 5), []string{"first wait", "factor"}},
		"no attempts":       {Exponential(time.Second, 2, time.Hour, 0), []string{"attempts"}},
		"negative attempts": {Exponential(0, 0.1, 0, -1), []string{"first wait", "factor", "attempts"}},
	} {
		err := test.schedule.validate()
		if err == nil {
			t.Errorf("%s: got no error, want one", name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, want it to say %q", name, err, want)
			}
		}
	}
}
