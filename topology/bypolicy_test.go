package topology

import (
	"reflect"
	"testing"
)

func TestByPolicy(t *testing.T) {
	t.Parallel()
	plan := Plan{
		Exchanges: []Exchange{{Name: "a.b", Type: "topic", Args: Args{"alternate-exchange": "y", "x-delayed-type": "direct"}}, {Name: "y", Type: "fanout"}},
		Queues: []Queue{
			{Name: "a.b", Args: Args{"x-queue-type": "quorum", "x-dead-letter-exchange": "y", "x-dead-letter-routing-key": "k", "x-dead-letter-strategy": "at-least-once",
				"x-delivery-limit": int64(5), "x-expires": int64(1), "x-max-length": int64(2), "x-max-length-bytes": int64(3), "x-message-ttl": int64(4), "x-overflow": "reject-publish",
				"x-single-active-consumer": true, "x-quorum-initial-group-size": int64(3), "x-queue-leader-locator": "balanced"}},
			{Name: "classic", Args: Args{"x-max-priority": int64(3), "x-queue-mode": "lazy", "x-dead-letter-strategy": "at-least-once"}},
			{Name: "plain"},
			{Name: "foreign", Passive: true},
			{Name: "mine", Exclusive: true, Args: Args{"x-message-ttl": int64(4)}},
		},
		Bindings: []Binding{{Source: "a.b", Destination: "a.b"}},
	}
	want := Plan{
		Exchanges: []Exchange{{Name: "a.b", Type: "topic", Args: Args{"x-delayed-type": "direct"}}, {Name: "y", Type: "fanout"}},
		Queues: []Queue{
			{Name: "a.b", Args: Args{"x-queue-type": "quorum", "x-single-active-consumer": true, "x-quorum-initial-group-size": int64(3), "x-queue-leader-locator": "balanced"}},
			{Name: "classic", Args: Args{"x-max-priority": int64(3), "x-dead-letter-strategy": "at-least-once"}},
			{Name: "plain"},
			{Name: "foreign", Passive: true},
			{Name: "mine", Exclusive: true, Args: Args{"x-message-ttl": int64(4)}},
		},
		Bindings: plan.Bindings,
		Policies: []Policy{
			{Name: "rehop:exchange:a.b", Pattern: `^a\.b\z`, ApplyTo: "exchanges", Priority: 7, Definition: Args{"alternate-exchange": "y"}},
			{Name: "rehop:queue:a.b", Pattern: `^a\.b\z`, ApplyTo: "queues", Priority: 7, Definition: Args{"dead-letter-exchange": "y", "dead-letter-routing-key": "k",
				"dead-letter-strategy": "at-least-once", "delivery-limit": int64(5), "expires": int64(1), "max-length": int64(2), "max-length-bytes": int64(3),
				"message-ttl": int64(4), "overflow": "reject-publish"}},
			{Name: "rehop:queue:classic", Pattern: `^classic\z`, ApplyTo: "queues", Priority: 7, Definition: Args{"queue-mode": "lazy"}},
		},
	}
	before := plan.Queues[0].Args.with("", nil)
	got := plan.ByPolicy(7)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if !plan.Queues[0].Args.with("", nil).Equal(before) || len(plan.Policies) != 0 {
		t.Error("the plan itself has changed")
	}
	if again := got.ByPolicy(7); !reflect.DeepEqual(again, want) {
		t.Errorf("once more: got %+v, want the same", again)
	}
}
