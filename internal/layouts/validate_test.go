package layouts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// Settings that are impossible are named, all of them, before anything is declared; and nothing panics on the way there.
func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		layouts.Layout
		want []string
	}{
		{layouts.Native{Type: "stream"}, []string{`Native.Type "stream"`}},
		{of(layout.PubSub{Delay: -time.Second}), []string{"PubSub.Delay -1s"}},
		{of(layout.PubSub{Delay: time.Microsecond}), []string{"PubSub.Delay 1µs"}},
		{of(layout.PubSub{Delay: layouts.MaxDelay + time.Millisecond}), []string{"PubSub.Delay"}},
		{of(layout.PubSub{Delay: 1500 * time.Microsecond}), []string{"whole number of milliseconds"}},
		{of(layout.DLX{Name: "amq.dlx", Queue: "rehop.dlq"}), []string{`DLX.Name "amq.dlx"`, `DLX.Queue "rehop.dlq"`}},
		{of(layout.DLX{Name: long}), []string{"DLX.Name has 256 bytes"}},
		{of(layout.DLX{QueueArgs: map[string]any{"x-a": []any{1}}}), []string{"DLX.QueueArgs: x-a"}},
		{of(layout.Tiers{Tiers: []time.Duration{}}), []string{"Tiers.Tiers is empty"}},
		{of(layout.Tiers{Tiers: []time.Duration{0, -1, time.Second, time.Second}}), []string{"tier 1, 0s", "tier 2, -1ns", "tier 1s is there twice"}},
		{of(layout.Tiers{Waits: []time.Duration{time.Second, 0}}), []string{"Tiers.Waits: wait 2, 0s"}},
		{of(layout.Tiers{Name: "rehop.step", Type: "x"}), []string{`Tiers.Name "rehop.step"`, `Tiers.Type "x"`}},
		{of(layout.Sneakers{Delay: -1, Retries: -1}), []string{"Sneakers.Delay -1ns", "Sneakers.Retries -1"}},
		{of(layout.Sneakers{Retries: 1 << 40}), []string{"Sneakers.Retries"}},
		{of(layout.Sneakers{RetryName: "a", ErrorName: "a", RequeueName: long}), []string{"Sneakers.RetryName and Sneakers.ErrorName must differ", "Sneakers.RequeueName has 256 bytes"}},
		{of(layout.Envelope{Delay: -1, Retries: -5, DeliveryLimit: -1, Name: "amq.x"}), []string{"Envelope.Delay -1ns", "Envelope.Retries -5", "Envelope.DeliveryLimit -1", `Envelope.Name "amq.x"`}},
	} {
		err := c.Validate()
		_, planned := layouts.SubscriptionPlan(c.Layout, layouts.Native{}, layouts.QueueSpec{Name: "q", Exchange: "x"}, c.Delays())
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q in it", c.Layout, err, want)
			}
			if planned == nil || !strings.Contains(planned.Error(), want) {
				t.Errorf("%+v: Whole: got %v, want %q in it", c.Layout, planned, want)
			}
		}
	}
	for _, l := range everyLayout() {
		if err := l.Validate(); err != nil {
			t.Errorf("%s: got %v, want none", l.name, err)
		}
	}
}
