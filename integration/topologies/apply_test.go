package topologies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// What is applied is what a client declares: one that subscribes then is refused nothing and adds nothing.
func TestApplyIsWhatClientsDeclare(t *testing.T) {
	t.Parallel()
	for _, name := range names() {
		t.Run(name, func(t *testing.T) {
			each(t, func(d *desk) {
				p := plan(d.t, subscriptions[name])
				if applied := d.apply(d.admin, p); len(applied.Declared) == 0 || len(applied.Left) > 0 || len(applied.Ensured) > 0 {
					d.t.Errorf("applied to nothing: got %+v, want things declared and nothing left", applied)
				}
				d.wantSame(p)
				s := subscriptions[name]
				s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
				kit.Drain(d.t, kit.Subscribe(d.t, kit.Open(d.t, rehop.Config{URL: d.rabbit.URL}), s))
				d.wantSame(p)
				if applied := d.apply(d.admin, p); len(applied.Declared) > 0 || applied.String() != "nothing to do\n" {
					d.t.Errorf("applied once more: got %v, want nothing to do", applied)
				}
			})
		})
	}
}

func TestApplyThroughAMQPAlone(t *testing.T) {
	each(t, func(d *desk) {
		p := everything(d.t)
		before := d.objects()
		if _, err := d.blind.Apply(d.ctx, p, admin.ApplyOptions{DryRun: true}); err != nil {
			d.t.Fatal(err)
		}
		if got := d.objects(); got != before {
			d.t.Errorf("after a dry run: got %d objects, want %d", got, before)
		}
		applied := d.apply(d.blind, p)
		if len(applied.Declared) != len(p.Exchanges)+len(p.Queues) || len(applied.Ensured) != len(p.Bindings) || len(applied.Left) > 0 {
			d.t.Errorf("got %d declared, %d ensured, %v left, want %d, %d and none", len(applied.Declared), len(applied.Ensured), applied.Left,
				len(p.Exchanges)+len(p.Queues), len(p.Bindings))
		}
		d.wantSame(p)
		if applied := d.apply(d.blind, p); len(applied.Declared) > 0 || len(applied.Left) > 0 {
			d.t.Errorf("once more: got %v, want nothing but ensured bindings", applied)
		}
	})
}

func TestDryRunSaysWhatIsDone(t *testing.T) {
	each(t, func(d *desk) {
		p := plan(d.t, subscriptions["bounded"], subscriptions["dlx"]).ByPolicy(7)
		dry, err := d.admin.Apply(d.ctx, p, admin.ApplyOptions{DryRun: true})
		if err != nil {
			d.t.Fatal(err)
		}
		if got := d.objects(); got != 0 {
			d.t.Errorf("after a dry run: got %d objects, want none", got)
		}
		if wet := d.apply(d.admin, p); wet.String() != dry.String() {
			d.t.Errorf("got\n%swhere the dry run said\n%s", wet, dry)
		}
		d.wantSame(p)
	})
}

// A subscription whose queue is ruled by a policy declares it without the arguments; the policy's settings apply, and can be changed while the queue is
// in use.
func TestQueueSetByPolicy(t *testing.T) {
	each(t, func(d *desk) {
		s := rehop.Subscriber{Queue: "q", Exchange: "order", PolicyPriority: 7, MaxLength: 100, Overflow: "reject-publish", Retry: rehop.NoRetry(),
			Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("no") })}
		p := plan(d.t, s)
		if len(p.Policies) != 1 || p.Policies[0].Priority != 7 || p.Policies[0].Definition["max-length"] == nil || p.Policies[0].Definition["dead-letter-exchange"] == nil {
			d.t.Fatalf("got policies %v, want one for the queue with its length and its dead letters", p.Policies)
		}
		d.apply(d.admin, p)
		client := kit.Open(d.t, rehop.Config{URL: d.rabbit.URL})
		sub := kit.Subscribe(d.t, client, s)
		d.wantSame(p)
		kit.Publish(d.t, client, rehop.Message{Exchange: "order", Key: "k", Body: []byte("handled")})
		kit.WantDepth(d.t, d.rabbit, d.ch, layouts.FailedQueue("q"), 1)
		kit.Drain(d.t, sub)

		changed := s
		changed.MaxLength, changed.MessageTTL = 50, time.Millisecond
		d.policy(p.Policies[0].Name, p.Policies[0].Pattern, 7, plan(d.t, changed).Policies[0].Definition)
		kit.Publish(d.t, client, rehop.Message{Exchange: "order", Key: "k", Body: []byte("expired")})
		kit.WantDepth(d.t, d.rabbit, d.ch, layouts.FailedQueue("q"), 2)
		kit.Drain(d.t, kit.Subscribe(d.t, client, changed))
	})
}

// What exists and differs stays unchanged, and all the rest is declared.
func TestApplyChangesNothing(t *testing.T) {
	each(t, func(d *desk) {
		d.queue("q", amqp.Table{"x-queue-type": "classic", "x-message-ttl": int64(5)})
		kit.Exchange(d.t, d.ch, "order", "direct")
		p := plan(d.t, rehop.Subscriber{Queue: "q", Exchange: "order"})
		for _, a := range []*admin.Admin{d.admin, d.blind} {
			applied := d.apply(a, p)
			left := applied.Left.Of(topology.Differs)
			if len(left) == 0 || !strings.Contains(applied.String(), `exchange "order": type is "direct", planned is "topic"`) {
				d.t.Errorf("got %swant what differs to be left", applied)
			}
		}
		live, err := d.admin.Live(d.ctx)
		if err != nil {
			d.t.Fatal(err)
		}
		q, _ := live.Queue("q")
		x, _ := live.Exchange("order")
		if q.Type != "classic" || len(q.Args) != 2 || fmt.Sprint(q.Args["x-message-ttl"]) != "5" || x.Type != "direct" {
			d.t.Errorf("got %+v and %+v, want them as they were", q, x)
		}
		if _, ok := live.Queue(layouts.FailedQueue("q")); !ok {
			d.t.Error("the failed queue is missing, want it declared")
		}
	})
}

// What somebody else must make is named, and what hangs on it waits.
func TestApplyWaitsForOthers(t *testing.T) {
	each(t, func(d *desk) {
		p := plan(d.t, rehop.Subscriber{Queue: "theirs", ExistingQueue: true, Exchange: "foreign", ExistingExchange: true, Retry: rehop.NoRetry()},
			rehop.Subscriber{Queue: "mine", Exchange: "foreign", ExistingExchange: true, Retry: rehop.NoRetry()},
			rehop.Subscriber{Queue: "brief", Exchange: "order", Exclusive: true, QueueType: layout.Classic, Retry: rehop.NoRetry()})
		for _, a := range []*admin.Admin{d.admin, d.blind} {
			applied := d.apply(a, p)
			var left []string
			for _, x := range applied.Left {
				left = append(left, string(x.Kind)+" "+x.Object.Kind+" "+x.Object.Name)
			}
			want := "missing exchange foreign, missing queue theirs, missing binding theirs, missing binding theirs, missing binding mine"
			if got := strings.Join(left, ", "); got != want {
				d.t.Errorf("left:\n got %s\nwant %s", got, want)
			}
		}
		live, err := d.admin.Live(d.ctx)
		if err != nil {
			d.t.Fatal(err)
		}
		if _, ok := live.Queue("brief"); ok {
			d.t.Error("the exclusive queue is there, want it left to its consumer")
		}
		if _, ok := live.Queue("mine"); !ok {
			d.t.Error("queue mine is missing, want it declared")
		}
		kit.Exchange(d.t, d.ch, "foreign", "topic")
		d.queue("theirs", nil)
		if applied := d.apply(d.admin, p); len(applied.Left) > 0 || len(applied.Declared) == 0 {
			d.t.Errorf("when they are there: got %v, want the bindings declared", applied)
		}
		d.wantSame(p)
	})
}

// If a broker refuses one thing, the others are declared anyway, and the error names what it refused.
func TestApplyNamesWhatIsRefused(t *testing.T) {
	each(t, func(d *desk) {
		user := "u" + d.rabbit.Vhost
		d.rabbit.API("PUT", "/api/users/"+user, map[string]string{"password": "secret-" + user, "tags": "management"}, nil)
		d.t.Cleanup(func() { d.rabbit.API("DELETE", "/api/users/"+user, nil, nil) })
		d.rabbit.API("PUT", "/api/permissions/"+d.rabbit.Vhost+"/"+user, map[string]string{"configure": "^(rehop|order)", "write": ".*", "read": ".*"}, nil)
		limited := d.open(admin.Config{URL: strings.Replace(d.rabbit.URL, "guest:guest", user+":secret-"+user, 1),
			Management: strings.Replace(d.rabbit.Management(), "guest:guest", user+":secret-"+user, 1)})
		p := plan(d.t, rehop.Subscriber{Queue: "q", Exchange: "order", Retry: rehop.NoRetry()})
		applied, err := limited.Apply(d.ctx, p, admin.ApplyOptions{})
		if err == nil {
			d.t.Fatal("got no error, want one: the user may not declare q")
		}
		for _, part := range []string{`declare queue "q"`, `declare queue "q.failed"`, "ACCESS_REFUSED", "grant the user configure"} {
			if !strings.Contains(err.Error(), part) {
				d.t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		if strings.Contains(err.Error(), "secret-") {
			d.t.Errorf("the error has the password: %v", err)
		}
		if len(applied.Declared) == 0 || len(applied.Left) == 0 {
			d.t.Errorf("got %v, want the rest declared and the bindings of q left", applied)
		}
		d.apply(d.admin, p)
		d.wantSame(p)
	})
}

// A limit with reject-publish that comes by policy to a classic queue which holds more would cost messages: RabbitMQ drops them before it
// learns that it is not to.
func TestApplyDropsNothing(t *testing.T) {
	refusing := func(name, pattern string, priority int, key string, limit int) topology.Policy {
		return topology.Policy{Name: name, Pattern: pattern, ApplyTo: "queues", Priority: priority, Definition: topology.Args{key: limit, "overflow": "reject-publish"}}
	}
	free := topology.Policy{Name: "z", Pattern: "^q$", ApplyTo: "queues", Priority: 5, Definition: topology.Args{"message-ttl": 3_600_000}}
	for name, c := range map[string]struct {
		policies []topology.Policy
		refused  string // empty: it is not
	}{
		"as many":                       {[]topology.Policy{refusing("p", "^q$", 0, "max-length", 5)}, ""},
		"fewer":                         {[]topology.Policy{refusing("p", "^q$", 0, "max-length", 3)}, `policy "p" sets max-length to 3 for the classic queue "q", which holds 5 messages`},
		"fewer bytes":                   {[]topology.Policy{refusing("p", "^q$", 0, "max-length-bytes", 3)}, `policy "p" sets max-length-bytes to 3 for the classic queue "q", which holds 5 bytes`},
		"another queue":                 {[]topology.Policy{refusing("p", "^other$", 0, "max-length", 3)}, ""},
		"another policy rules":          {[]topology.Policy{refusing("a", ".*", 0, "max-length", 3), free}, ""},
		"another rules that drops":      {[]topology.Policy{refusing("a", ".*", 9, "max-length", 3), free}, `policy "a" sets max-length to 3`},
		"a pattern of the broker's own": {[]topology.Policy{refusing("p", `^(?!other)`, 0, "max-length", 3)}, `policy "p" sets max-length to 3`},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(d *desk) {
				d.queue("q", amqp.Table{"x-queue-type": "classic"})
				d.alone("mine")
				d.fill("q", 5)
				plan := topology.Plan{Policies: c.policies}
				if c.refused == "" {
					d.apply(d.admin, plan)
					kit.WantDepth(d.t, d.rabbit, d.ch, "q", 5)
					return
				}
				for _, dry := range []bool{true, false} {
					lab.Eventually(d.t, kit.Limit, "the broker's statistics are there", func() bool {
						applied, err := d.admin.Apply(d.ctx, plan, admin.ApplyOptions{DryRun: dry})
						if err != nil && strings.Contains(err.Error(), "apply the plan again in some seconds") {
							return false
						}
						if err == nil || !strings.Contains(err.Error(), c.refused) || len(applied.Declared) > 0 {
							d.t.Errorf("dry run %v: got %s and %v, want it refused", dry, applied, err)
						}
						return true
					})
				}
				kit.WantDepth(d.t, d.rabbit, d.ch, "q", 5)
			})
		})
	}
}

// fill publishes messages of a byte to a queue.
func (d *desk) fill(queue string, n int) {
	d.t.Helper()
	for range n {
		if err := d.ch.PublishWithContext(d.ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")}); err != nil {
			d.t.Fatal(err)
		}
	}
	kit.WantDepth(d.t, d.rabbit, d.ch, queue, n)
}

// alone makes a queue that is another connection's own.
func (d *desk) alone(queue string) {
	d.t.Helper()
	conn, err := d.rabbit.Dial(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, false, false, true, false, nil); err != nil {
		d.t.Fatal(err)
	}
}

// A dry run finds arguments that the broker refuses, and leaves nothing behind.
func TestDryRunOfRefusedArguments(t *testing.T) {
	each(t, func(d *desk) {
		var subs []rehop.Subscriber
		refused := map[string]any{"x-quorum-initial-group-size": int64(0), "x-max-priority": int64(5), "x-expires": int64(0), "x-overflow": "sometimes"}
		for argument, value := range refused {
			subs = append(subs, rehop.Subscriber{Queue: argument, QueueArgs: map[string]any{argument: value}})
		}
		p := plan(d.t, append(subs, rehop.Subscriber{Queue: "fine"})...)
		for _, a := range []*admin.Admin{d.admin, d.blind} {
			applied, err := a.Apply(d.ctx, p, admin.ApplyOptions{DryRun: true})
			if err == nil || len(applied.Refused) != len(refused) {
				d.t.Errorf("got %v and %v, want %d queues refused", err, applied.Refused, len(refused))
			}
			for _, r := range applied.Refused {
				if refused[r.Object.Name] == nil || !strings.Contains(r.Reason, r.Object.Name) || strings.Contains(r.Reason, "rehop.try.") {
					d.t.Errorf("got %+v, want the queue and the argument that is refused", r)
				}
			}
			if !slices.ContainsFunc(applied.Declared, func(o topology.Object) bool { return o.Name == "fine" }) {
				d.t.Errorf("got %v, want that queue fine would be declared", applied.Declared)
			}
			if n := d.objects(); n != 0 {
				d.t.Errorf("then there are %d objects, want none", n)
			}
		}
	})
}
