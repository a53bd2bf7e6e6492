package layouts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// named is a layout with its settings, as the tests know it.
type named struct {
	name string
	layouts.Layout
}

// everyLayout are all of them, with the settings that change what is declared.
func everyLayout() []named {
	return []named{
		{"native", layouts.Native{}},
		{"native classic", layouts.Native{Type: layout.Classic}},
		{"pubsub", of(layout.PubSub{})},
		{"pubsub delay", of(layout.PubSub{Delay: time.Millisecond})},
		{"dlx", of(layout.DLX{})},
		{"dlx own", of(layout.DLX{Name: "dead", Queue: "morgue", QueueArgs: map[string]any{}})},
		{"tiers", of(layout.Tiers{})},
		{"tiers classic", of(layout.Tiers{Type: layout.Classic})},
		{"tiers own", of(layout.Tiers{Name: "later", Tiers: []time.Duration{2 * time.Second, time.Second}, Waits: []time.Duration{time.Hour}})},
		{"sneakers", of(layout.Sneakers{})},
		{"sneakers reject", of(layout.Sneakers{Reject: true})},
		{"sneakers document", of(layout.Sneakers{Document: true})},
		{"sneakers own", of(layout.Sneakers{RetryName: "r", ErrorName: "e", RequeueName: "rr", RequeueKey: "k"})},
		{"envelope", of(layout.Envelope{})},
		{"envelope own", of(layout.Envelope{Name: "order", Delay: time.Hour, Retries: 1, DeliveryLimit: 1, RequireID: true})},
	}
}

// specs are queues as subscriptions may want them.
func specs(name string) []layouts.QueueSpec {
	return []layouts.QueueSpec{
		{Name: name},
		{Name: name, Exchange: "x"},
		{Name: name, Exchange: "x", ExchangeType: "fanout"},
		{Name: name, Exchange: "x", ExistingExchange: true, Keys: []string{"a", "b.#"}},
		{Name: name, Exchange: "amq.topic", Keys: []string{"a"}},
		{Name: name, Type: layout.Quorum, Exchange: "x"},
		{Name: name, Type: layout.Classic, Args: map[string]any{"x-max-length": int64(1), "x-overflow": "reject-publish"}},
		{Name: name, Passive: true, Exchange: "x"},
		{Name: name, Type: layout.Classic, Exclusive: true, AutoDelete: true},
	}
}

// checkComplete finds what bindings and arguments of a plan name and the plan has not, and what RabbitMQ refuses.
func checkComplete(t *testing.T, plan topology.Plan) {
	t.Helper()
	has := make(map[string]bool)
	add := func(kind, name string) {
		if has[kind+name] {
			t.Errorf("%s%s is planned twice", kind, name)
		}
		has[kind+name] = true
		if name == "" || len(name) > 255 {
			t.Errorf("%s%s: got a name of %d bytes, want 1 to 255", kind, name, len(name))
		}
	}
	for _, x := range plan.Exchanges {
		add("exchange ", x.Name)
	}
	for _, q := range plan.Queues {
		add("queue ", q.Name)
	}
	need := func(who, kind, name string) {
		t.Helper()
		if !has[kind+name] && !strings.HasPrefix(name, "amq.") {
			t.Errorf("%s needs %s%s, which is not in the plan", who, kind, name)
		}
	}
	for _, x := range plan.Exchanges {
		if alternate, ok := x.Args["alternate-exchange"]; ok {
			need("exchange "+x.Name, "exchange ", fmt.Sprint(alternate))
		}
	}
	for _, q := range plan.Queues {
		if dead, ok := q.Args["x-dead-letter-exchange"]; ok {
			need("queue "+q.Name, "exchange ", fmt.Sprint(dead))
		}
		if key, _ := q.Args["x-dead-letter-routing-key"].(string); len(key) > 255 {
			t.Errorf("queue %s: got a key of %d bytes, want at most 255", q.Name, len(key))
		}
		if ttl, ok := q.Args["x-message-ttl"].(int64); ok && ttl < 0 {
			t.Errorf("queue %s: got TTL %d", q.Name, ttl)
		}
		if strategy := q.Args["x-dead-letter-strategy"]; strategy != nil && (q.Args["x-queue-type"] != "quorum" || q.Args["x-overflow"] != "reject-publish") {
			t.Errorf("queue %q: got strategy %v with type %v, overflow %v, which RabbitMQ refuses", q.Name, strategy, q.Args["x-queue-type"], q.Args["x-overflow"])
		}
	}
	for _, b := range plan.Bindings {
		need("a binding", "exchange ", b.Source)
		if b.ToExchange {
			need("a binding", "exchange ", b.Destination)
		} else {
			need("a binding", "queue ", b.Destination)
		}
		if len(b.Key) > 255 {
			t.Errorf("binding of %s: got a key of %d bytes, want at most 255", b.Destination, len(b.Key))
		}
	}
}

// Everything that a plan names is in it, whatever the layout and the queue, up to the longest name. What refuses
// only with a reason does so with an error.
func TestPlansAreComplete(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 249)
	for _, name := range []string{"q", "order.main.q", "service@name", "ä b.#*", long + ".q", long + "main.q", strings.Repeat("n", 255), strings.Repeat("語", 85)} {
		for _, l := range everyLayout() {
			for i, spec := range specs(name) {
				t.Run(fmt.Sprintf("%s/%d bytes/%d", l.name, len(name), i), func(t *testing.T) {
					plan, err := layouts.SubscriptionPlan(l.Layout, layouts.Native{}, spec, l.Delays())
					if sneakers, ok := l.Settings().(layout.Sneakers); ok && sneakers.Reject && spec.Passive {
						if err == nil || !strings.Contains(err.Error(), "lost") {
							t.Errorf("got %v, want an error that says what is lost", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					checkComplete(t, plan)
				})
			}
		}
	}
}

// The cascade and delayed publishes are complete too.
func TestFabricIsComplete(t *testing.T) {
	t.Parallel()
	for _, kind := range []layout.QueueType{"", layout.Quorum, layout.Classic} {
		native := layouts.Native{Type: kind}
		plan := native.Base()
		topologies.Add(&plan, whole(t, native, layouts.QueueSpec{Name: "q", Type: kind, Exchange: "x"}))
		topologies.Add(&plan, native.Step(time.Second))
		topologies.Add(&plan, native.Cascade(layouts.MaxDelay))
		topologies.Add(&plan, native.LaterTo("x"))
		topologies.Add(&plan, native.LaterToQueue("q"))
		topologies.Add(&plan, native.LaterHome())
		checkComplete(t, plan)
	}
}

// The failed queue, and the address to which a layout moves a message, are in the plan; the address leads there.
func TestFailedMessagesArrive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"q", "order.main.q", strings.Repeat("n", 255)} {
		for _, l := range everyLayout() {
			plan := wholeOf(t, l.Layout, layouts.QueueSpec{Name: name, Exchange: "x"})
			failed := layouts.Failure{Message: layouts.Message{Queue: name, Exchange: "x", Key: "k"}, Attempt: 1, At: time.Unix(1, 0)}
			verdict := l.Fail(failed)
			if verdict.Do != layouts.Move {
				t.Errorf("%s: Fail: got action %v, want Move", l.name, verdict.Do)
			}
			if got, want := landing(plan, name, verdict.Address.Exchange, verdict.Key), []string{l.FailedQueue(name)}; !slices.Equal(got, want) {
				t.Errorf("%s: a failed message of %.20s: got to %v, want to %v", l.name, name, got, want)
			}
			for _, delay := range l.Delays() {
				failed.Delay = delay
				verdict := l.Retry(failed)
				if verdict.Do != layouts.Move {
					continue
				}
				key := verdict.Key
				if verdict.ToQueue {
					key = name
				}
				got := landing(plan, name, verdict.Address.Exchange, key)
				if len(got) != 1 {
					t.Fatalf("%s: a message that waits for %v: got to %v, want to one queue", l.name, delay, got)
				}
				i := slices.IndexFunc(plan.Queues, func(q topology.Queue) bool { return q.Name == got[0] })
				back, _ := plan.Queues[i].Args["x-dead-letter-exchange"].(string)
				if home := landing(plan, name, back, key); !slices.Equal(home, []string{name}) {
					t.Errorf("%s: a message that has waited for %v: got to %v, want to its queue", l.name, delay, home)
				}
			}
		}
	}
}

// A message that waits comes back to its queue and to no other, by whatever way its layout and its queue need.
func TestWaitingMessagesReturn(t *testing.T) {
	t.Parallel()
	const wait = 7 * time.Second
	for _, name := range []string{"q", "order.main.q", strings.Repeat("n", 255)} {
		for _, l := range everyLayout() {
			for _, spec := range specs(name) {
				if sneakers, ok := l.Settings().(layout.Sneakers); ok && sneakers.Reject && spec.Passive {
					continue // TestRejectNeedsDeadLettering
				}
				plan, err := layouts.SubscriptionPlan(l.Layout, layouts.Native{}, spec, []time.Duration{wait})
				if err != nil {
					t.Fatal(err)
				}
				cascade := layouts.Native{}.Cascade(wait)
				topologies.Add(&cascade, layouts.Native{}.LaterHome())
				topologies.Add(&plan, cascade)
				verdict := l.Retry(layouts.Failure{Message: layouts.Message{Queue: name, Exchange: "x", Key: "k"}, Attempt: 1, Delay: wait})
				step, to, key := layouts.StepAddress(wait), layouts.ToQueue, layouts.ReturnKey(l.Queue(spec))
				if l.KeepsKey() {
					step, to, key = layouts.HomeStepAddress(wait), layouts.ToHome, "k"
				}
				addresses := []layouts.Address{step}
				if cascaded, err := layouts.CascadeAddress(wait, to); err != nil {
					t.Fatal(err)
				} else {
					addresses = append(addresses, cascaded)
				}
				if verdict.Do == layouts.Move {
					addresses = []layouts.Address{verdict.Address}
				}
				for _, address := range addresses {
					waited, back := follow(t, plan, name, address, key)
					if back != name || waited < wait || verdict.Do == layouts.Wait && waited != wait {
						t.Errorf("%s: %+v by %q: got to %.30q after %v, want to its queue after %v", l.name, spec, address.Exchange, back, waited, wait)
					}
				}
			}
		}
	}
}

// follow takes a message of a queue through a plan until it is in a queue that does not pass it on, or in its own again.
func follow(t *testing.T, plan topology.Plan, queue string, address layouts.Address, key string) (waited time.Duration, at string) {
	t.Helper()
	headers := maps.Clone(address.Headers)
	if headers == nil {
		headers = make(map[string]any)
	}
	headers[envelope.Queue] = queue
	exchange := address.Exchange
	for range 100 {
		destinations := routed(plan, exchange, key, headers)
		if len(destinations) != 1 {
			t.Fatalf("from exchange %q by %q: got to %v, want to one place", exchange, key, destinations)
		}
		if destinations[0].ToExchange {
			exchange = destinations[0].Destination
			continue
		}
		at = destinations[0].Destination
		i := slices.IndexFunc(plan.Queues, func(q topology.Queue) bool { return q.Name == at })
		args := plan.Queues[i].Args
		next, passes := args["x-dead-letter-exchange"].(string)
		if at == queue || !passes {
			return waited, at
		}
		waited += time.Duration(args["x-message-ttl"].(int64)) * time.Millisecond
		exchange = next
		if fixed, ok := args["x-dead-letter-routing-key"].(string); ok {
			key = fixed
		}
	}
	t.Fatalf("a message of %q goes round in circles", queue)
	return 0, ""
}

// routed are the bindings that a message meets at an exchange, or at its alternate exchange if it meets none.
func routed(plan topology.Plan, exchange, key string, headers map[string]any) (met []topology.Binding) {
	i := slices.IndexFunc(plan.Exchanges, func(x topology.Exchange) bool { return x.Name == exchange })
	if i < 0 {
		return nil
	}
	for _, b := range plan.Bindings {
		kind := plan.Exchanges[i].Type
		if b.Source == exchange && (kind == "fanout" || kind == "headers" && matches(b.Args, headers) || kind == "direct" && b.Key == key) {
			met = append(met, b)
		}
	}
	if alternate, ok := plan.Exchanges[i].Args["alternate-exchange"].(string); ok && met == nil {
		return routed(plan, alternate, key, headers)
	}
	return met
}

// landing are the queues to which a plan leads a message that queue has failed. Of topic patterns only # is known.
func landing(plan topology.Plan, queue, exchange, key string) (queues []string) {
	if exchange == "" {
		return []string{key}
	}
	i := slices.IndexFunc(plan.Exchanges, func(x topology.Exchange) bool { return x.Name == exchange })
	if i < 0 {
		return nil
	}
	for _, b := range plan.Bindings {
		var leads bool
		switch plan.Exchanges[i].Type {
		case "fanout":
			leads = true
		case "headers":
			leads = matches(b.Args, map[string]any{envelope.Queue: queue})
		default:
			leads = b.Key == key || b.Key == "#"
		}
		if leads && b.Source == exchange {
			queues = append(queues, b.Destination)
		}
	}
	return queues
}

// A queue with the name of one that the layout needs for something else is an error, whatever its arguments: it would get its
// own failed messages back without end.
func TestCollisionsAreErrors(t *testing.T) {
	t.Parallel()
	resting := map[string]any{}
	for _, c := range []struct {
		what string
		layouts.Layout
		spec layouts.QueueSpec
		want string
	}{
		{"the dead-letter queue", of(layout.DLX{}), layouts.QueueSpec{Name: "dlq"}, `"dlq"`},
		{"the dead-letter queue as it is", of(layout.DLX{}), layouts.QueueSpec{Name: "dlq", Passive: true}, `"dlq"`},
		{"the dead-letter queue with its own arguments",
			of(layout.DLX{QueueArgs: map[string]any{"x-dead-letter-exchange": "dlx", "x-overflow": "drop-head", "x-max-length": int64(300), "x-message-ttl": int64(86_400_000)}}),
			layouts.QueueSpec{Name: "dlq"}, `"dlq"`},
		{"a dead-letter queue with the name of the landing queue", of(layout.DLX{Queue: "q.home", QueueArgs: resting}), layouts.QueueSpec{Name: "q", Passive: true}, `"q.home"`},
		{"a queue on the dead-letter exchange", of(layout.DLX{}), layouts.QueueSpec{Name: "q", Exchange: "dlx"}, `"dlx"`},
		{"a queue on the dead-letter exchange of somebody else", of(layout.DLX{}), layouts.QueueSpec{Name: "q", Exchange: "dlx", ExistingExchange: true, Keys: []string{"k"}}, `"dlx"`},
		{"a tier", of(layout.Tiers{}), layouts.QueueSpec{Name: "delay.30s"}, `"delay.30s"`},
		{"a tier as it is", of(layout.Tiers{}), layouts.QueueSpec{Name: "delay.24h", Passive: true}, `"delay.24h"`},
		{"an error queue", of(layout.Sneakers{ErrorName: "errors"}), layouts.QueueSpec{Name: "errors"}, `"errors"`},
		{"a retry queue", of(layout.Sneakers{RetryName: "again"}), layouts.QueueSpec{Name: "again", Passive: true}, `"again"`},
		{"a queue on the error exchange", of(layout.Sneakers{}), layouts.QueueSpec{Name: "q", Exchange: "q-error", ExchangeType: "topic"}, `"q-error"`},
		{"an exchange of another kind", of(layout.Sneakers{}), layouts.QueueSpec{Name: "q", Exchange: "q-retry"}, `"q-retry"`},
		{"a dead queue", of(layout.Envelope{Name: "order"}), layouts.QueueSpec{Name: "order.dead.q"}, `"order.dead.q"`},
		{"a dead queue as it is", of(layout.Envelope{Name: "order"}), layouts.QueueSpec{Name: "order.dead.q", Passive: true}, `"order.dead.q"`},
		{"a retry queue as it is", of(layout.Envelope{Name: "order"}), layouts.QueueSpec{Name: "order.retry.q", Passive: true}, `"order.retry.q"`},
		{"a queue on the dead exchange", of(layout.Envelope{}), layouts.QueueSpec{Name: "order.q", Exchange: "order.dead.x", ExchangeType: "fanout"}, `"order.dead.x"`},
		{"rehop's own queue", layouts.Native{}, layouts.QueueSpec{Name: layouts.OrphansQueue, Passive: true}, `"rehop.orphans"`},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			plan, err := layouts.SubscriptionPlan(c.Layout, layouts.Native{}, c.spec, c.Delays())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v and %d queues, want an error that names %s", err, len(plan.Queues), c.want)
			}
		})
	}
}

// The exchanges of publishers are the same as those of subscribers, and complete; the dead-letter exchange can be one.
func TestExchangesArePlannedOnce(t *testing.T) {
	t.Parallel()
	for _, l := range everyLayout() {
		for _, name := range []string{"x", "dlx", "dead"} {
			plan := layouts.Native{}.Base()
			topologies.Add(&plan, l.Exchange(name, ""))
			checkComplete(t, plan)
		}
		plan := wholeOf(t, l.Layout, layouts.QueueSpec{Name: "q", Exchange: "x"})
		if err := plan.Merge(l.Exchange("x", "")); err != nil {
			t.Errorf("%s: a publisher's exchange differs from a subscriber's: %v", l.name, err)
		}
	}
}

// A message that is refused is lost unless its queue dead-letters where the layout can find it.
func TestRejectNeedsDeadLettering(t *testing.T) {
	t.Parallel()
	reject := of(layout.Sneakers{Reject: true})
	for what, spec := range map[string]layouts.QueueSpec{
		"somebody else's queue":                       {Name: "q", Passive: true},
		"a queue without dead letters":                {Name: "q", Args: map[string]any{"x-dead-letter-exchange": nil}},
		"a queue with dead letters to somewhere else": {Name: "q", Args: map[string]any{"x-dead-letter-exchange": "elsewhere"}},
	} {
		// Whatever the schedule: a handler may ask for a wait that is the retry queue's.
		for _, waits := range [][]time.Duration{reject.Delays(), {time.Second}, nil} {
			if _, err := layouts.SubscriptionPlan(reject, layouts.Native{}, spec, waits); err == nil || !strings.Contains(err.Error(), "lost") {
				t.Errorf("%s, waits %v: got %v, want an error that says what is lost", what, waits, err)
			}
		}
	}
}
