package layouts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// tiers is the mechanics of [layout.Tiers].
type tiers struct {
	rules
	layout.Tiers
}

func (t tiers) Settings() layout.Layout { return t.Tiers }

func (t tiers) name() string { return cmp.Or(t.Name, "delay") }

func (t tiers) Validate() error {
	faults := []error{CheckName("Tiers.Name", t.Name), CheckType("Tiers.Type", t.Type)}
	if t.Tiers.Tiers != nil && len(t.Tiers.Tiers) == 0 {
		faults = append(faults, errors.New("Tiers.Tiers is empty; nil stands for the usual ones"))
	}
	for i, d := range t.Tiers.Tiers {
		faults = append(faults, checkDelay(fmt.Sprintf("Tiers.Tiers: tier %d,", i+1), d))
		if slices.Contains(t.Tiers.Tiers[:i], d) {
			faults = append(faults, fmt.Errorf("Tiers.Tiers: tier %v is there twice", d))
		}
	}
	for i, d := range t.Waits {
		faults = append(faults, checkDelay(fmt.Sprintf("Tiers.Waits: wait %d,", i+1), d))
	}
	return errors.Join(faults...)
}

func (t tiers) tiers() []time.Duration {
	if len(t.Tiers.Tiers) > 0 {
		return slices.Sorted(slices.Values(t.Tiers.Tiers))
	}
	const m, h = time.Minute, time.Hour
	return []time.Duration{m / 2, m, 5 * m, 30 * m, h, 3 * h, 6 * h, 12 * h, 24 * h}
}

func (t tiers) tier(d time.Duration) string { return suffixed(t.name(), "."+StepName(d)) }

func (t tiers) returnExchange() string { return suffixed(t.name(), ".return") }

func (t tiers) native() Native { return Native{Type: t.Type} }

func (t tiers) Exchange(name, typ string) topology.Plan   { return t.native().Exchange(name, typ) }
func (t tiers) KeepsUnrouted() bool                       { return true }
func (t tiers) Queue(q QueueSpec) topology.Queue          { return t.native().Queue(q) }
func (t tiers) KeepsKey() bool                            { return false }
func (t tiers) DeadLettersToFailed(q topology.Queue) bool { return t.native().DeadLettersToFailed(q) }
func (t tiers) FailedQueue(queue string) string           { return FailedQueue(queue) }
func (t tiers) Fail(f Failure) Verdict                    { return t.native().Fail(f) }

// Subscription is the native one, bound to the return exchange of the tiers.
func (t tiers) Subscription(q QueueSpec) topology.Plan {
	plan := t.native().Subscription(q)
	plan.Bindings = append(plan.Bindings, topology.Binding{Source: t.returnExchange(), Destination: q.Name, Key: q.Name})
	return plan
}

// RetryTopology is the failed queue and all tiers.
func (t tiers) RetryTopology(q QueueSpec) topology.Plan {
	plan := t.native().RetryTopology(q)
	plan.Exchanges = append(plan.Exchanges,
		// Messages for a deleted queue must not block the tiers.
		topology.Exchange{Name: t.returnExchange(), Type: "direct", Args: topology.Args{"alternate-exchange": OrphansQueue}})
	for _, d := range t.tiers() {
		name := t.tier(d)
		plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: name, Type: "fanout"})
		plan.Queues = append(plan.Queues, topology.Queue{Name: name, Args: t.native().delayArgs(d, t.returnExchange())})
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: name, Destination: name})
	}
	if queue := t.Queue(q); ReturnKey(queue) != q.Name {
		plan.Bindings = append(plan.Bindings,
			topology.Binding{Source: t.returnExchange(), Destination: LandingQueue(q.Name), Key: LandingQueue(q.Name)})
	}
	return plan
}

func (t tiers) Delays() []time.Duration {
	if t.Waits != nil {
		return t.Waits
	}
	return []time.Duration{30 * time.Second, 5 * time.Minute, 30 * time.Minute}
}

// Origin is unknown for a message that other programs have failed: it returns with the name of its queue
// as key.
func (t tiers) Origin(l Message) (exchange, key string) {
	if l.Exchange == t.returnExchange() {
		return "", l.Key
	}
	return l.Exchange, l.Key
}

// Failures is how often the message has waited in a tier.
func (t tiers) Failures(l Message) int {
	return deathsOf(l.Headers, func(death death) bool { return death.reason == expired && t.has(death.queue) })
}

func (t tiers) has(queue string) bool {
	return slices.ContainsFunc(t.tiers(), func(d time.Duration) bool { return t.tier(d) == queue })
}

// Record counts all failures in the first tier.
func (t tiers) Record(l Message, failures int) map[string]any {
	return t.record(l, t.tiers()[0], failures, time.Now())
}

func (t tiers) record(l Message, tier time.Duration, failures int, at time.Time) map[string]any {
	return deathRecord(death{queue: t.tier(tier), reason: expired, exchange: t.tier(tier), key: l.Queue, count: failures, at: at})
}

// Retry moves the message to the next tier that is not shorter than the delay. For a delay longer than
// all tiers, it waits in rehop's own delay queues.
func (t tiers) Retry(f Failure) Verdict {
	all := t.tiers()
	i, _ := slices.BinarySearch(all, f.Delay)
	if i == len(all) {
		return Verdict{Do: Wait, Headers: t.record(f.Message, all[0], f.Attempt, f.At)}
	}
	tier := all[i]
	// The tier adds one to the count when the message leaves it.
	return Verdict{Do: Move, Address: Address{Exchange: t.tier(tier)}, ToQueue: true, Headers: t.record(f.Message, tier, f.Attempt-1, f.At)}
}
