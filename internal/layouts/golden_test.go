package layouts_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The plans are what lies on the brokers of users: a change of one is a migration for all of them.
func TestGoldenPlans(t *testing.T) {
	t.Parallel()
	quorum, classic := layouts.Native{}, layouts.Native{Type: layout.Classic}
	for name, plan := range map[string]topology.Plan{
		"base":         quorum.Base(),
		"base_classic": classic.Base(),
		"exchange":     quorum.Exchange("order", ""),
		"subscription_quorum": whole(t, quorum, layouts.QueueSpec{Name: "order-summary", Exchange: "order",
			Keys: []string{"order.created", "order.#"}}),
		"subscription_classic": whole(t, classic, layouts.QueueSpec{Name: "order-summary", Type: layout.Classic, Exchange: "order", ExchangeType: "fanout"}),
		"subscription_foreign": whole(t, quorum, layouts.QueueSpec{Name: "theirs", Passive: true, Exchange: "their exchange", ExistingExchange: true}),
		"subscription_bounded": whole(t, quorum, layouts.QueueSpec{Name: "bounded", Args: map[string]any{"x-max-length": int64(1000)}}),
		"subscription_drop_head": whole(t, quorum, layouts.QueueSpec{Name: "bounded",
			Args: map[string]any{"x-max-length": int64(1000), "x-overflow": "drop-head"}}),
		"pubsub":        wholeOf(t, of(layout.PubSub{}), layouts.QueueSpec{Name: "ucenter@user", Keys: []string{"user.#"}}),
		"pubsub_by_key": wholeOf(t, of(layout.PubSub{Form: layout.PubSubByKey}), layouts.QueueSpec{Name: "ucenter@user", Keys: []string{"user.#"}}),
		"pubsub_exchange": wholeOf(t, of(layout.PubSub{Delay: 5 * time.Second, Form: layout.PubSubByKey}), layouts.QueueSpec{Name: "ucenter@enterprise", Exchange: "events",
			Keys: []string{"enterprise.created", "enterprise.*.changed"}}),
		"dlx": wholeOf(t, of(layout.DLX{}), layouts.QueueSpec{Name: "order-summary-queue", Exchange: "order", Keys: []string{"order.#"}}),
		"dlx_args": wholeOf(t, of(layout.DLX{Name: "dead", Queue: "dead-letters", QueueArgs: map[string]any{"x-queue-type": "quorum"}}),
			layouts.QueueSpec{Name: "order-notification-queue", Exchange: "order", Keys: []string{"order.created"},
				Args: map[string]any{"x-max-length": int64(5000), "x-overflow": "reject-publish", "x-message-ttl": nil}}),
		"tiers":         wholeOf(t, of(layout.Tiers{}), layouts.QueueSpec{Name: "notify", Exchange: "user"}),
		"tiers_classic": wholeOf(t, of(layout.Tiers{Type: layout.Classic}), layouts.QueueSpec{Name: "notify", Type: layout.Classic}),
		"tiers_own": wholeOf(t, of(layout.Tiers{Name: "later", Tiers: []time.Duration{time.Hour, 10 * time.Second}, Waits: []time.Duration{time.Second, 2 * time.Hour}}),
			layouts.QueueSpec{Name: "notify", Passive: true}),
		"sneakers": wholeOf(t, of(layout.Sneakers{}), layouts.QueueSpec{Name: "downloads"}),
		"sneakers_own": wholeOf(t, of(layout.Sneakers{Delay: 5 * time.Second, Reject: true, RetryName: "all-retry", ErrorName: "all-error", RequeueName: "all-requeue", RequeueKey: "downloads"}),
			layouts.QueueSpec{Name: "downloads", Exchange: "work", ExchangeType: "topic", Keys: []string{"downloads", "downloads.#"}}),
		"envelope":        wholeOf(t, of(layout.Envelope{}), layouts.QueueSpec{Name: "order.main.q"}),
		"envelope_quorum": wholeOf(t, of(layout.Envelope{}), layouts.QueueSpec{Name: "order.quorum.q", Type: layout.Quorum}),
		"envelope_own": wholeOf(t, of(layout.Envelope{Name: "order", Delay: 30 * time.Second, DeliveryLimit: 3}),
			layouts.QueueSpec{Name: "audit", Type: layout.Quorum, Exchange: "order.main.x", Keys: []string{"order.#"}}),
		"step_10s":         quorum.Step(10 * time.Second),
		"step_10s_classic": classic.Step(10 * time.Second),
		"cascade_10s":      quorum.Cascade(10 * time.Second),
		"cascade_max":      quorum.Cascade(layouts.MaxDelay),
		"later_to":         quorum.LaterTo("order"),
		"later_home":       quorum.LaterHome(),
		"back_pubsub":      layouts.ReplayPlan(of(layout.PubSub{}), quorum, "ucenter@user"),
		"later_to_queue":   quorum.LaterToQueue("a queue"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.MarshalIndent(plan, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			file := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; write it with go test ./layout -update", err)
			}
			if string(got) != string(want) {
				t.Errorf("plan differs from %s; if that is meant, go test ./layout -update\n%s", file, firstDifference(string(got), string(want)))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			from := max(0, i-5)
			return fmt.Sprintf("line %d: got\n%s\nwant\n%s", i+1, strings.Join(g[from:i+1], "\n"), strings.Join(w[min(from, len(w)):min(i+1, len(w))], "\n"))
		}
	}
	return fmt.Sprintf("got ends after line %d, want %d lines", len(g), len(w))
}

// whole is all that a subscription declares, without steps.
func whole(t *testing.T, l layouts.Layout, spec layouts.QueueSpec) topology.Plan {
	t.Helper()
	native, _ := l.(layouts.Native)
	plan, err := layouts.SubscriptionPlan(l, native, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// wholeOf is all that a subscription declares with the waits that are usual in its layout.
func wholeOf(t *testing.T, l layouts.Layout, spec layouts.QueueSpec) topology.Plan {
	t.Helper()
	plan, err := layouts.SubscriptionPlan(l, layouts.Native{}, spec, l.Delays())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
