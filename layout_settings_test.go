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
		{layout.DLX{Queue: "q"}, []string{`queue "q"`}},
	} {
		_, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "q", Layout: c.layout})
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
		plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "q", Keys: []string{"k"}, Layout: c.layout})
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

// Where no failed queue takes what the broker drops, settings by which it drops messages are refused.
func TestSettingsThatLose(t *testing.T) {
	t.Parallel()
	ttl, full := rehop.Subscriber{Queue: "q", MessageTTL: time.Minute}, rehop.Subscriber{Queue: "q", MaxLength: 3, Overflow: "drop-head"}
	bytes := rehop.Subscriber{Queue: "q", MaxBytes: 3000, Overflow: "reject-publish-dlx", QueueType: layout.Classic}
	refuses := rehop.Subscriber{Queue: "q", MaxLength: 3, Overflow: "reject-publish"}
	elsewhere := rehop.Subscriber{Queue: "q", MessageTTL: time.Minute, QueueArgs: map[string]any{"x-dead-letter-exchange": "own"}}
	for _, c := range []struct {
		layout layout.Layout
		loses  bool
	}{
		{nil, false}, {layout.Tiers{}, false}, {layout.DLX{}, false},
		{layout.PubSub{}, true}, {layout.Sneakers{}, true}, {layout.Envelope{}, true},
	} {
		for _, s := range []rehop.Subscriber{ttl, full, bytes} {
			s.Layout = c.layout
			_, err := rehop.Topology(rehop.Config{}, s)
			if lost := err != nil && strings.Contains(err.Error(), "would be lost"); lost != c.loses || err != nil && !lost {
				t.Errorf("%T with %v and %d %q: got %v, want an error: %t", c.layout, s.MessageTTL, s.MaxLength, s.Overflow, err, c.loses)
			}
		}
		for _, s := range []rehop.Subscriber{refuses, elsewhere} {
			s.Layout = c.layout
			if _, err := rehop.Topology(rehop.Config{}, s); err != nil {
				t.Errorf("%T with %d %q and %v: got %v, want none", c.layout, s.MaxLength, s.Overflow, s.QueueArgs, err)
			}
		}
	}
}

// Jitter would take each message of the tiers to the tier after its own.
func TestTiersTakeNoJitter(t *testing.T) {
	t.Parallel()
	_, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "q", Layout: layout.Tiers{}, Retry: rehop.Steps(30 * time.Second).WithJitter(0.1)})
	if err == nil || !strings.Contains(err.Error(), "jitter") {
		t.Errorf("got %v, want that jitter is refused", err)
	}
}
