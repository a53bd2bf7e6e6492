package topologies

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/topology"
)

// What is exported can be imported, in each way that RabbitMQ has, and is the plan then.
func TestDefinitionsCanBeImported(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(d *desk, definitions []byte){
		"for all virtual hosts": func(d *desk, definitions []byte) {
			d.rabbit.API("POST", "/api/definitions", json.RawMessage(definitions), nil)
		},
		"for one": func(d *desk, definitions []byte) {
			d.rabbit.API("POST", "/api/definitions/"+d.rabbit.Vhost, json.RawMessage(definitions), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(d *desk) { imports(d, everything(d.t), load) })
		})
	}
	t.Run("as policies", func(t *testing.T) {
		each(t, func(d *desk) {
			imports(d, plan(d.t, subscriptions["bounded"], subscriptions["dlx"]).ByPolicy(3), func(d *desk, definitions []byte) {
				d.rabbit.API("POST", "/api/definitions", json.RawMessage(definitions), nil)
			})
		})
	})
	t.Run("rabbitmqctl", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, lab.Single(t))
		imports(d, plan(t, subscriptions["bounded"], subscriptions["dlx"]).ByPolicy(3), func(d *desk, definitions []byte) {
			file := filepath.Join(d.t.TempDir(), "definitions.json")
			if err := os.WriteFile(file, definitions, 0o600); err != nil {
				d.t.Fatal(err)
			}
			d.rabbit.Services("ctl", "single", "import_definitions", file)
		})
	})
}

func imports(d *desk, p topology.Plan, load func(d *desk, definitions []byte)) {
	d.t.Helper()
	definitions, err := p.Definitions(d.rabbit.Vhost)
	if err != nil {
		d.t.Fatal(err)
	}
	load(d, definitions)
	d.wantSame(p)
	load(d, definitions) // what is there stays
	d.wantSame(p)
}

// A queue whose settings are policies behaves as planned, and a policy changes them without declaring anything anew.
func TestPoliciesDoWhatArgumentsDid(t *testing.T) {
	each(t, func(d *desk) {
		p := topology.Plan{
			Exchanges: []topology.Exchange{{Name: "in", Type: "fanout", Args: topology.Args{"alternate-exchange": "lost"}}, {Name: "lost", Type: "fanout"},
				{Name: "dead", Type: "direct"}},
			Queues: []topology.Queue{
				{Name: "a.b+(c)", Args: topology.Args{"x-queue-type": "quorum", "x-message-ttl": int64(time.Hour / time.Millisecond), "x-dead-letter-exchange": "dead",
					"x-dead-letter-routing-key": "k", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-delivery-limit": int64(3)}},
				{Name: "aXb+(c)"}, {Name: "lost"}, {Name: "dead"},
			},
			Bindings: []topology.Binding{{Source: "lost", Destination: "lost"}, {Source: "dead", Destination: "dead", Key: "k"}},
		}
		arguments, byPolicy := p, p.ByPolicy(5)
		d.apply(d.admin, byPolicy)
		d.wantSame(byPolicy)
		// A client that declares with arguments is refused, and the plan warns of that beforehand.
		diff := d.diff(d.admin, arguments)
		if len(diff) != 7 || diff[1].Policy != "rehop:queue:a.b+(c)" {
			d.t.Errorf("compared with the arguments: got %d differences, want 7 of which the second names its policy:\n%s", len(diff), diff)
		}
		publish := func(exchange, key string) {
			d.t.Helper()
			err := d.ch.PublishWithContext(d.ctx, exchange, key, true, false, amqp.Publishing{Body: []byte("x"), DeliveryMode: amqp.Persistent})
			if err != nil {
				d.t.Fatal(err)
			}
		}
		publish("in", "")
		kit.WantDepth(d.t, d.rabbit, d.ch, "lost", 1)
		publish("", "a.b+(c)")
		publish("", "aXb+(c)")
		kit.WantDepth(d.t, d.rabbit, d.ch, "a.b+(c)", 1)
		if _, err := d.ch.QueuePurge("a.b+(c)", false); err != nil { // what came before keeps its time
			d.t.Fatal(err)
		}
		at := slices.IndexFunc(byPolicy.Policies, func(p topology.Policy) bool { return p.Name == "rehop:queue:a.b+(c)" })
		changed := byPolicy.Policies[at]
		changed.Definition = maps.Clone(changed.Definition)
		changed.Definition["message-ttl"] = int64(1)
		name := strings.NewReplacer("+", "%2B", "(", "%28", ")", "%29").Replace(changed.Name)
		d.rabbit.API("PUT", "/api/policies/"+d.rabbit.Vhost+"/"+name, changed, nil)
		d.wantDiff(d.admin, byPolicy, "differs policy rehop:queue:a.b+(c) message-ttl 1→3600000")
		publish("", "a.b+(c)")
		kit.WantDepth(d.t, d.rabbit, d.ch, "dead", 1)
		if applied := d.apply(d.admin, byPolicy); len(applied.Declared) > 0 || len(applied.Left) != 1 {
			d.t.Errorf("got %v, want nothing declared and the policy left", applied)
		}
		kit.WantDepth(d.t, d.rabbit, d.ch, "aXb+(c)", 1)
	})
}

// RabbitMQ itself is asked which policy applies to what, and what it comes to.
func TestPoliciesAsRabbitMQSeesThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lab.Single(t))
	d.queue("orders.classic", nil)
	d.queue("orders.quorum", amqp.Table{"x-queue-type": "quorum"})
	d.queue("other", nil)
	d.queue("lazy.quorum", amqp.Table{"x-queue-type": "quorum"})
	d.policy("all", "", 0, map[string]any{"message-ttl": 60000})
	d.policy("orders", "^orders", 1, map[string]any{"max-length": 100, "message-ttl": 50000})
	d.policy("limits", "^orders", 2, map[string]any{"delivery-limit": 7})
	d.policy("lazy", "^(other|lazy)", 2, map[string]any{"queue-mode": "lazy"})
	d.rabbit.API("PUT", "/api/operator-policies/"+d.rabbit.Vhost+"/cap", map[string]any{"pattern": "^orders", "apply-to": "queues", "priority": 0,
		"definition": map[string]any{"max-length": 10, "message-ttl": 70000}}, nil)
	rulings := d.rulings()
	live, err := d.admin.Live(d.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range rulings {
		q, _ := live.Queue(want.Name)
		if got := (ruling{q.Name, q.Policy, q.OperatorPolicy, q.PolicyArgs}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, RabbitMQ says %v", got, want)
		}
	}
	if len(rulings) != 4 || rulings[0].Policy == "" {
		t.Errorf("RabbitMQ has %v, want four queues with policies", rulings)
	}
}

// ruling is what policies do with a queue.
type ruling struct {
	Name, Policy, Operator string
	PolicyArgs             topology.Args
}

// rulings are what RabbitMQ knows at once; its API shows it later.
func (d *desk) rulings() (all []ruling) {
	d.t.Helper()
	code := `rabbit_json:encode([#{name => element(4, amqqueue:get_name(Q)), policy => rabbit_policy:name(Q), operator => rabbit_policy:name_op(Q),
		policyargs => maps:from_list(rabbit_policy:effective_definition(Q))} || Q <- rabbit_amqqueue:list(<<"` + d.rabbit.Vhost + `">>)]).`
	out, err := exec.CommandContext(d.ctx, lab.Setting(d.t, "REHOP_SERVICES"), "ctl", "single", "eval", code).Output()
	if err != nil {
		d.t.Fatal(err)
	}
	binary := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(out)), "<<"), ">>")
	text, err := strconv.Unquote(binary)
	if err != nil {
		d.t.Fatalf("%v: %s", err, binary)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, `"none"`, `""`)), &all); err != nil {
		d.t.Fatalf("%v: %s", err, text)
	}
	return all
}

// No queue is declared without its settings: one who cannot set the policies of a plan declares nothing of it.
func TestPoliciesComeFirst(t *testing.T) {
	each(t, func(d *desk) {
		p := plan(d.t, rehop.Subscriber{Queue: "q", Exchange: "order", Retry: rehop.NoRetry()}).ByPolicy(1)
		if _, err := d.blind.Apply(d.ctx, p, admin.ApplyOptions{}); !errors.Is(err, admin.ErrNoManagement) {
			d.t.Errorf("without the management API: got %v, want ErrNoManagement", err)
		}
		p.Policies[0].Definition = topology.Args{"no-such-setting": int64(1)}
		if _, err := d.admin.Apply(d.ctx, p, admin.ApplyOptions{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("set policy %q", p.Policies[0].Name)) {
			d.t.Errorf("with a bad policy: got %v, want an error that names it", err)
		}
		live, err := d.admin.Live(d.ctx)
		if err != nil {
			d.t.Fatal(err)
		}
		if len(live.Queues) > 0 {
			d.t.Errorf("got %d queues, want none", len(live.Queues))
		}
	})
}
