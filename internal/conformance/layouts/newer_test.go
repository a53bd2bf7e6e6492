package layouts_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/topology"
)

// TestNewer runs the suite by the rules of later RabbitMQ releases.
func TestNewer(t *testing.T) {
	known := make(map[string]bool)
	for _, c := range layouts.Cases() {
		known[c.Name] = true
	}
	for _, release := range []broker.Compat{broker.RabbitMQ40, broker.RabbitMQ43} {
		for name := range layouts.Exceptions(release.Release()) {
			if !known[name] {
				t.Errorf("there is no case %q", name)
			}
		}
		t.Run(release.String(), func(t *testing.T) {
			layouts.Run(t, release.Release(), func(t *testing.T, run func(*testing.T, layouts.Broker)) {
				synctest.Test(t, func(t *testing.T) {
					config := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat = release })).Config()
					run(t, layouts.Broker{URL: config.URL, Dial: config.Dial, Virtual: true})
				})
			})
		})
	}
}

// From RabbitMQ 4.3 on a quorum queue does not count what was given back, but marks it, by which the layout counts.
func TestDLXOnQuorumQueue(t *testing.T) {
	for name, s := range map[string]rehop.Subscriber{"quorum": {QueueType: layout.Quorum}, "passive": {ExistingQueue: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat = broker.RabbitMQ43 }))
				declared := rehop.Subscriber{Queue: "q", QueueType: layout.Quorum, Layout: layout.DLX{QueueArgs: map[string]any{}}}
				plan, err := rehop.Topology(rehop.Config{}, declared)
				if err != nil {
					t.Fatal(err)
				}
				apply(t, b, plan)
				s.Queue, s.Layout = declared.Queue, declared.Layout
				attempts := make(chan int, 100)
				s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					attempts <- d.Attempt
					if len(attempts) == cap(attempts) {
						return nil
					}
					return errors.New("no")
				})
				if _, err := b.Client.Subscribe(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				if err := b.Client.Publish(t.Context(), rehop.Message{Key: "q"}); err != nil {
					t.Fatal(err)
				}
				b.AwaitMessages("dlq", 1)
				if len(attempts) != 2 {
					t.Errorf("%d attempts, want 2", len(attempts))
				}
			})
		})
	}
}

func apply(t *testing.T, b *rehoptest.Broker, plan topology.Plan) {
	t.Helper()
	config := b.Config()
	a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Apply(t.Context(), plan, admin.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
}
