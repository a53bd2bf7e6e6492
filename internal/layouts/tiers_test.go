package layouts_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func TestTiersCount(t *testing.T) {
	t.Parallel()
	own := of(layout.Tiers{Name: "later", Tiers: []time.Duration{time.Hour, time.Second}})
	for what, c := range map[string]struct {
		layouts.Layout
		headers map[string]any
		want    int
	}{
		"never":                     {of(layout.Tiers{}), nil, 0},
		"in two tiers":              {of(layout.Tiers{}), deaths(died("delay.5m", "expired", "delay.5m", "q", 1), died("delay.30s", "expired", "delay.30s", "q", 2)), 3},
		"in a queue that is none":   {of(layout.Tiers{}), deaths(died("delay.7s", "expired", "", "q", 1), died("q", "rejected", "", "q", 1)), 0},
		"purged out of a tier":      {of(layout.Tiers{}), deaths(died("delay.5m", "maxlen", "", "q", 1)), 0},
		"in tiers of another name":  {own, deaths(died("delay.5m", "expired", "", "q", 1)), 0},
		"in a tier of its own name": {own, deaths(died("later.1h", "expired", "", "q", 1)), 1},
	} {
		if got := c.Failures(layouts.Message{Queue: "q", Headers: c.headers}); got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
}

// The tier that a message is about to enter adds one to its own entry, so that has one less.
func TestTiersRetry(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	tiers := of(layout.Tiers{Tiers: []time.Duration{time.Hour, time.Second}})
	f := layouts.Failure{Message: layouts.Message{Queue: "q", Exchange: "x", Key: "k"}, Attempt: 1, Delay: time.Minute, At: at}
	if got, want := tiers.Retry(f), (layouts.Verdict{Do: layouts.Move, Address: layouts.Address{Exchange: "delay.1h"}, ToQueue: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("the first failure: got %+v, want %+v", got, want)
	}
	f.Attempt = 4
	entry := func(tier string, count int64) map[string]any {
		return deaths(map[string]any{"queue": tier, "reason": "expired", "exchange": tier, "routing-keys": []any{"q"}, "count": count, "time": at, "rehop": true})
	}
	if got, want := tiers.Retry(f), (layouts.Verdict{Do: layouts.Move, Address: layouts.Address{Exchange: "delay.1h"}, ToQueue: true, Headers: entry("delay.1h", 3)}); !reflect.DeepEqual(got, want) {
		t.Errorf("the fourth failure: got %+v, want %+v", got, want)
	}
	f.Delay = 2 * time.Hour
	if got, want := tiers.Retry(f), (layouts.Verdict{Do: layouts.Wait, Headers: entry("delay.1s", 4)}); !reflect.DeepEqual(got, want) {
		t.Errorf("longer than the longest tier: got %+v, want %+v", got, want)
	}
	if got, want := tiers.Fail(f), (layouts.Verdict{Do: layouts.Move, Key: "q.failed"}); !reflect.DeepEqual(got, want) {
		t.Errorf("the last failure: got %+v, want %+v", got, want)
	}
	for what, c := range map[string]struct{ got, want []time.Duration }{
		"usual": {of(layout.Tiers{}).Delays(), []time.Duration{30 * time.Second, 5 * time.Minute, 30 * time.Minute}},
		"own":   {of(layout.Tiers{Waits: []time.Duration{7}}).Delays(), []time.Duration{7}},
		"none":  {of(layout.Tiers{Waits: []time.Duration{}}).Delays(), []time.Duration{}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s waits: got %v, want %v", what, c.got, c.want)
		}
	}
}
