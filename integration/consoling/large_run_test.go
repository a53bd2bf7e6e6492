//go:build !race

package consoling

import (
	"net/url"
	"testing"
	"time"

	"github.com/rehop/rehop/console"
)

// Counting and recording the messages of a large run takes longer than a page may take.
func TestLargeRunMayTakeLonger(t *testing.T) {
	x := newIndexed(t)
	x.put(some(3)...)
	slow := x.with(func(o *console.Options) { o.Timeout = time.Nanosecond })
	if w := ask(slow, "operator", "GET", "/groups", nil); w.Code < 500 {
		t.Fatalf("a page within 1 ns: got %d, want an error", w.Code)
	}
	plan := ask(slow, "operator", "POST", "/plan", url.Values{"query": {"refused"}, "scope": {"all"}, "do": {"replay"}})
	if plan.Code != 200 {
		t.Fatalf("counting: got %d, want 200: %s", plan.Code, plan.Body)
	}
	if w := ask(slow, "operator", "POST", "/start", fields(plan.Body.String())); w.Code != 303 {
		t.Errorf("starting: got %d, want 303: %s", w.Code, w.Body)
	}
}
