package rehop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

// A layout with impossible settings is refused with all its faults, before anything reaches a broker.
func TestImpossibleLayouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		layout layout.Layout
		want   []string
	}{
		{layout.Sneakers{Delay: -time.Second, Retries: -1}, []string{"Layout: Sneakers.Delay -1s", "Sneakers.Retries -1"}},
		{layout.Tiers{Tiers: []time.Duration{time.Second, time.Second}}, []string{"Layout: Tiers.Tiers: tier 1s is there twice"}},
		{layout.Envelope{DeliveryLimit: -1}, []string{"Layout: Envelope.DeliveryLimit -1"}},
		{layout.DLX{Rest: "q"}, []string{`queue "q"`}},
	} {
		_, err := rehop.Topology(rehop.Config{}, rehop.Subscription{Queue: "q", Layout: c.layout})
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("subscription with %+v: got %v, want %q in it", c.layout, err, want)
			}
		}
	}
	_, err := rehop.Topology(rehop.Config{Exchanges: []rehop.Exchange{{Name: "x", Layout: layout.PubSub{Delay: -1}}}})
	if want := `exchange "x": Layout: PubSub.Delay -1ns`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("exchange: got %v, want %q in it", err, want)
	}
}

// Keys need an exchange: that of the subscription, or the one that a layout has.
func TestKeysNeedAnExchange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		layout layout.Layout
		has    string
	}{
		{nil, ""}, {layout.DLX{}, ""}, {layout.Tiers{}, ""}, {layout.PubSub{}, "master"}, {layout.Sneakers{}, "sneakers"}, {layout.Envelope{}, "q.main.x"},
	} {
		plan, err := rehop.Topology(rehop.Config{}, rehop.Subscription{Queue: "q", Keys: []string{"k"}, Layout: c.layout})
		if c.has == "" {
			if err == nil || !strings.Contains(err.Error(), "Keys are set") {
				t.Errorf("%T: got %v, want that Keys are set without an exchange", c.layout, err)
			}
			continue
		}
		bound := false
		for _, b := range plan.Bindings {
			bound = bound || b.Source == c.has && b.Destination == "q" && b.Key == "k"
		}
		if err != nil || !bound {
			t.Errorf("%T: got %v and bindings %v, want q bound to %s by k", c.layout, err, plan.Bindings, c.has)
		}
	}
}
