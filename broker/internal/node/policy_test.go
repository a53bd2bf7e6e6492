package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/queue"
)

type definition = map[string]any

func TestPolicyCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		compat Compat
		policy string // as JSON
		want   string // what follows "Validation failed"
	}{
		{"good", RabbitMQ310, `{"pattern": "^a", "apply-to": "queues", "definition": {"message-ttl": 5, "dead-letter-exchange": "x"}}`, ""},
		{"for mirrors", RabbitMQ310, `{"definition": {"ha-mode": "all"}}`, ""},
		{"nothing", RabbitMQ310, `{}`, "no policy provided"},
		{"unknown key", RabbitMQ310, `{"definition": {"max-lenght": 5, "b": "x"}}`, `[{<<"b">>,<<"x">>},{<<"max-lenght">>,5}] are not recognised policy settings`},
		{"negative ttl", RabbitMQ310, `{"definition": {"message-ttl": -1}}`, "-1 is not a valid message TTL"},
		{"ttl as text", RabbitMQ310, `{"definition": {"message-ttl": "5"}}`, `<<"5">> is not a valid message TTL`},
		{"ttl as fraction", RabbitMQ310, `{"definition": {"message-ttl": 1.5}}`, "1.5 is not a valid message TTL"},
		{"ttl as float", RabbitMQ310, `{"definition": {"message-ttl": 1.0}}`, "1.0 is not a valid message TTL"},
		{"ttl as null", RabbitMQ310, `{"definition": {"message-ttl": null}}`, "null is not a valid message TTL"},
		{"no expiry", RabbitMQ310, `{"definition": {"expires": 0}}`, "0 is not a valid queue expiry"},
		{"exchange not text", RabbitMQ310, `{"definition": {"alternate-exchange": true}}`, "true is not a valid alternate exchange name"},
		{"overflow", RabbitMQ310, `{"definition": {"overflow": "explode"}}`, `<<"explode">> is not a valid overflow value`},
		{"unlimited deliveries", RabbitMQ310, `{"definition": {"delivery-limit": -1}}`, "-1 is not a valid delivery limit"},
		{"unlimited deliveries in 4.0", RabbitMQ40, `{"definition": {"delivery-limit": -1}}`, ""},
		{"age", RabbitMQ310, `{"definition": {"max-age": "7D"}}`, ""},
		{"no age", RabbitMQ310, `{"definition": {"max-age": "0D"}}`, `<<"0D">> is not a valid max age`},
		{"mirrors without mode", RabbitMQ310, `{"definition": {"ha-sync-mode": "manual"}}`, "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"},
		{"mirrors without number", RabbitMQ310, `{"definition": {"ha-mode": "exactly"}}`, `ha-mode="exactly" takes an integer, none given`},
		{"mirrors with number", RabbitMQ310, `{"definition": {"ha-mode": "exactly", "ha-params": 2}}`, ""},
		{"mirrors on nodes", RabbitMQ310, `{"definition": {"ha-mode": "nodes", "ha-params": 2}}`, `ha-mode="nodes" takes a list, 2 given`},
		{"mirrors of another mode", RabbitMQ310, `{"definition": {"ha-mode": "some"}}`, `<<"some">> is not a valid ha-mode value`},
		{"mirrors in 4.0", RabbitMQ40, `{"definition": {"ha-mode": "all"}}`, `[{<<"ha-mode">>,<<"all">>}] are not recognised policy settings`},
		{"delayed retry in 4.0", RabbitMQ40, `{"definition": {"delayed-retry-min": 5}}`, `[{<<"delayed-retry-min">>,5}] are not recognised policy settings`},
		{"delayed retry", RabbitMQ43, `{"definition": {"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 5}}`, ""},
		{"delayed retry disabled", RabbitMQ43, `{"definition": {"delayed-retry-type": "disabled"}}`, ""},
		{"delayed retry, most alone", RabbitMQ43, `{"definition": {"delayed-retry-max": 7}}`, ""},
		{"delayed retry of an unknown type", RabbitMQ43, `{"definition": {"delayed-retry-type": "bogus"}}`,
			`<<"bogus">> is not a valid delayed retry type. Must be one of: all, failed, returned, disabled`},
		{"delayed retry, least zero", RabbitMQ43, `{"definition": {"delayed-retry-min": 0}}`, "0 is not a valid delayed retry minimum delay. Must be a positive integer"},
		{"delayed retry, most as text", RabbitMQ43, `{"definition": {"delayed-retry-max": "x"}}`, `<<"x">> is not a valid delayed retry maximum delay. Must be a positive integer`},
		{"delayed retry without least", RabbitMQ43, `{"definition": {"delayed-retry-type": "failed", "foo": 1}}`, "delayed-retry-min is required when delayed-retry-type is failed"},
		{"delayed retry, most below least", RabbitMQ43, `{"definition": {"delayed-retry-min": 5, "delayed-retry-max": 4}}`,
			"delayed-retry-max (4) must not be smaller than delayed-retry-min (5)"},
		{"target", RabbitMQ310, `{"apply-to": "quorum_queues", "definition": {"expires": 1}}`, "apply-to 'quorum_queues' unrecognised; should be 'queues', 'exchanges' or 'all'"},
		{"target in 3.13", RabbitMQ313, `{"apply-to": "quorum_queues", "definition": {"expires": 1}}`, ""},
		{"several faults", RabbitMQ310, `{"pattern": "(", "apply-to": "x"}`, "no policy provided\napply-to 'x' unrecognised; should be 'queues', 'exchanges' or 'all'\n" +
			"pattern should be regular expression but is invalid: error parsing regexp: missing closing ): `(`"},
		{"pattern too long", RabbitMQ310, `{"pattern": "` + strings.Repeat("a", maxPattern+1) + `", "definition": {"expires": 1}}`, "pattern should have at most 4096 bytes, actually has 4097"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in struct {
				Pattern    string
				ApplyTo    string `json:"apply-to"`
				Definition definition
			}
			d := json.NewDecoder(strings.NewReader(c.policy))
			d.UseNumber()
			if err := d.Decode(&in); err != nil {
				t.Fatal(err)
			}
			p := Policy{Name: "p", Pattern: in.Pattern, ApplyTo: in.ApplyTo, Definition: in.Definition}.normal()
			want := c.want
			if want != "" {
				want = "Validation failed\n\n" + want + "\n"
			}
			if got := replyText(p.check(c.compat)); got != want {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

func TestPolicyFor(t *testing.T) {
	policies := make(map[string]Policy)
	for _, p := range []Policy{
		{Name: "low", Pattern: "", Definition: definition{"expires": 1}},
		{Name: "b-orders", Pattern: "^orders", Priority: 1, Definition: definition{"expires": 1}},
		{Name: "a-orders", Pattern: "^orders", Priority: 1, Definition: definition{"expires": 1}},
		{Name: "limits", Pattern: "^jobs", Priority: 2, ApplyTo: "queues", Definition: definition{"delivery-limit": 3}},
		{Name: "modes", Pattern: "^lazy", Priority: 2, Definition: definition{"queue-mode": "lazy"}},
		{Name: "exchanges", Pattern: "^jobs", Priority: 3, ApplyTo: "exchanges", Definition: definition{"alternate-exchange": "x"}},
		{Name: "classic", Pattern: "typed", Priority: 4, ApplyTo: "classic_queues", Definition: definition{"expires": 1}},
	} {
		p = p.normal()
		if err := p.check(RabbitMQ313); err != nil {
			t.Fatalf("policy %s: %v", p.Name, err)
		}
		policies[p.Name] = p
	}
	classic, quorum := queueTarget(queue.Classic), queueTarget(queue.Quorum)
	for _, c := range []struct {
		name   string
		target target
		want   string
	}{
		{"other", classic, "low"},
		{"orders", quorum, "a-orders"},
		{"jobs", quorum, "limits"},
		{"jobs", classic, "low"},
		{"jobs", exchangeTarget, "exchanges"},
		{"lazy", classic, "modes"},
		{"lazy", quorum, "low"},
		{"a typed one", classic, "classic"},
		{"a typed one", quorum, "low"},
		{"a typed one", exchangeTarget, "low"},
	} {
		if got := policyFor(policies, c.name, c.target).Name; got != c.want {
			t.Errorf("policy for %q of the %s: got %q, want %q", c.name, c.target, got, c.want)
		}
	}
	if got := policyFor(nil, "q", classic); got.Name != "" || got.Definition != nil {
		t.Errorf("no policies: got %+v, want an empty one", got)
	}
}

func TestPolicyOverJSON(t *testing.T) {
	before := Policy{Name: "p", Definition: definition{"max-length": 7, "overflow": "drop-head"}}.normal()
	encoded, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var after Policy
	if err := json.Unmarshal(encoded, &after); err != nil {
		t.Fatal(err)
	}
	if after = after.normal(); !reflect.DeepEqual(after, before) {
		t.Errorf("a policy that was kept: got %+v, want %+v", after, before)
	}
}

// openVhost opens a node that ends with the test, and returns its virtual host.
func openVhost(t *testing.T, dir string) *Vhost {
	t.Helper()
	return openVhostAs(t, dir, RabbitMQ310)
}

// openVhostAs opens a node that follows a release.
func openVhostAs(t *testing.T, dir string, c Compat) *Vhost {
	t.Helper()
	n, err := openAlone(Config{Dir: dir, Compat: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n.Vhost("/")
}

func TestPutPolicy(t *testing.T) {
	v := openVhost(t, "")
	q, err := v.DeclareQueue(QueueSpec{Name: "orders", Arguments: table("x-max-length", int32(10))})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.DeclareExchange(Exchange{Name: "orders", Kind: exchange.Direct}); err != nil {
		t.Fatal(err)
	}
	x := v.Exchange("orders")
	effect := func() string {
		v.mu.RLock()
		defer v.mu.RUnlock()
		return fmt.Sprintf("queue: policy %q, length %d; exchange: policy %q, alternate %q", q.policy, q.Core.Settings().MaxLength, x.policy, x.alternate)
	}
	expect := func(when, want string) {
		t.Helper()
		if got := effect(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", when, got, want)
		}
	}
	expect("at first", `queue: policy "", length 10; exchange: policy "", alternate ""`)

	put := func(p Policy) {
		t.Helper()
		if err := v.PutPolicy(p); err != nil {
			t.Fatalf("put policy %s: %v", p.Name, err)
		}
	}
	put(Policy{Name: "limit", Pattern: "^ord", ApplyTo: "queues", Definition: definition{"max-length": 5}})
	put(Policy{Name: "spare", Pattern: "^ord", ApplyTo: "exchanges", Definition: definition{"alternate-exchange": "amq.fanout"}})
	expect("with policies", `queue: policy "limit", length 5; exchange: policy "spare", alternate "amq.fanout"`)

	later, err := v.DeclareQueue(QueueSpec{Name: "orders-2"})
	if err != nil {
		t.Fatal(err)
	}
	if got := later.Core.Settings().MaxLength; got != 5 || later.policy != "limit" {
		t.Errorf("a queue declared later: got length %d by policy %q, want 5 by limit", got, later.policy)
	}

	put(Policy{Name: "limit", Pattern: "^ord", Priority: 1, Definition: definition{"max-length": 3}})
	expect("with a policy replaced", `queue: policy "limit", length 3; exchange: policy "limit", alternate ""`)
	if got := len(v.Policies()); got != 2 {
		t.Errorf("policies: got %d, want 2", got)
	}
	if err := v.PutPolicy(Policy{Name: "limit", Definition: definition{"max-length": -1}}); err == nil {
		t.Error("a policy that is not valid was taken")
	}
	expect("after a policy that is not valid", `queue: policy "limit", length 3; exchange: policy "limit", alternate ""`)

	if err := v.DeletePolicy("limit", false); err != nil {
		t.Errorf("delete policy limit: %v", err)
	}
	expect("with a policy deleted", `queue: policy "", length 10; exchange: policy "spare", alternate "amq.fanout"`)
	if err := v.DeletePolicy("limit", false); err == nil {
		t.Error("a policy that is not there was deleted")
	}
}

func TestPoliciesAreKept(t *testing.T) {
	dir := t.TempDir()
	v := openVhost(t, dir)
	for _, p := range []Policy{
		{Name: "limit", Pattern: "^orders$", ApplyTo: "queues", Definition: definition{"max-length": 5}},
		{Name: "spare", Pattern: "^orders$|^amq.topic$", ApplyTo: "exchanges", Definition: definition{"alternate-exchange": "amq.fanout"}},
		{Name: "gone", Pattern: "", Priority: 1, Definition: definition{"max-length": 1}},
	} {
		if err := v.PutPolicy(p); err != nil {
			t.Fatalf("put policy %s: %v", p.Name, err)
		}
	}
	if err := v.DeletePolicy("gone", false); err != nil {
		t.Fatal(err)
	}
	if _, err := v.DeclareQueue(QueueSpec{Name: "orders", Durable: true}); err != nil {
		t.Fatal(err)
	}
	if err := v.DeclareExchange(Exchange{Name: "orders", Kind: exchange.Direct, Durable: true}); err != nil {
		t.Fatal(err)
	}
	if err := v.node.Close(); err != nil {
		t.Fatal(err)
	}

	v = openVhost(t, dir)
	if got := len(v.Policies()); got != 2 {
		t.Errorf("policies: got %d, want 2", got)
	}
	if q := v.Queue("orders"); q == nil {
		t.Error("the queue is not there")
	} else if got := q.Core.Settings().MaxLength; got != 5 {
		t.Errorf("the queue's length: got %d, want 5", got)
	}
	for _, name := range []string{"orders", "amq.topic"} {
		if x := v.Exchange(name); x == nil {
			t.Errorf("exchange %q is not there", name)
		} else if x.alternate != "amq.fanout" {
			t.Errorf("alternate of exchange %q: got %q, want amq.fanout", name, x.alternate)
		}
	}
}

// TestOperatorPolicy: operators limit arguments and policies of users, and nothing else.
func TestOperatorPolicy(t *testing.T) {
	v := openVhost(t, t.TempDir())
	m := must{t, v}
	plain, own := m.queue("plain"), m.queue("own", "x-max-length", int64(3))
	m.queue("quorum", "x-queue-type", "quorum")
	m.do(v.PutPolicy(Policy{Name: "same", Definition: definition{"max-length": 10, "overflow": "reject-publish"}}))
	m.do(v.PutPolicy(Policy{Name: "same", Operator: true, Definition: definition{"max-length": 5, "message-ttl": 1000}}))
	want := func(when string, lengths ...int64) {
		t.Helper()
		for i, name := range []string{"plain", "own", "quorum"} {
			if got := v.Queue(name).Core.Settings().MaxLength; got != lengths[i] {
				t.Errorf("%s: queue %s has room for %d messages, want %d", when, name, got, lengths[i])
			}
		}
	}
	want("both", 5, 3, 5)
	if got := plain.Core.Settings(); got.TTL != time.Second || got.Overflow != queue.RejectPublish {
		t.Errorf("both: got %+v, want the operator's time to live and the user's overflow", got)
	}
	if plain.policy != "same" || plain.operatorPolicy != "same" || len(v.Policies()) != 1 || len(v.OperatorPolicies()) != 1 {
		t.Errorf("got policies %q and %q of %d and %d, want one of each, by the same name", plain.policy, plain.operatorPolicy, len(v.Policies()), len(v.OperatorPolicies()))
	}
	if got, want := fmt.Sprint(own.EffectivePolicy()), "map[max-length:5 message-ttl:1000 overflow:reject-publish]"; got != want {
		t.Errorf("effective: got %s, want %s", got, want)
	}
	v = reopen(t, v)
	want("after a restart", 5, 3, 5)
	m.v = v
	m.do(v.DeletePolicy("same", false))
	want("operator alone", 5, 3, 5)
	m.do(v.DeletePolicy("same", true))
	want("none", -1, 3, -1)
	if err := v.DeletePolicy("same", true); err == nil {
		t.Error("an operator policy that is not there was deleted")
	}
	m.do(v.PutPolicy(Policy{Name: "high", Operator: true, Definition: definition{"max-length": 100}}))
	want("a bound above", 100, 3, 100)
	v = reopen(t, v)
	if len(v.Policies()) != 0 || len(v.OperatorPolicies()) != 1 {
		t.Errorf("after a restart: got %d and %d policies, want only the operator's", len(v.Policies()), len(v.OperatorPolicies()))
	}
	err := v.PutPolicy(Policy{Name: "p", Operator: true, Definition: definition{"dead-letter-exchange": "x", "max-length": 1}})
	if want := "Validation failed\n\n[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised policy settings\n"; replyText(err) != want {
		t.Errorf("got %q, want %q", replyText(err), want)
	}
}

// TestMergedDeliveryLimits: any limit is stricter than none.
func TestMergedDeliveryLimits(t *testing.T) {
	for _, c := range []struct{ user, operator, want int64 }{{3, 5, 3}, {5, 3, 3}, {-1, 5, 5}, {5, -1, 5}, {-1, -1, -1}} {
		got := merged(definition{"delivery-limit": c.user}, definition{"delivery-limit": c.operator})
		if got["delivery-limit"] != c.want {
			t.Errorf("%d by the user, %d by the operator: got %v, want %d", c.user, c.operator, got["delivery-limit"], c.want)
		}
	}
}
