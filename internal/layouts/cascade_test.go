package layouts_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// walk follows a message through a cascade's plan as the broker would, and returns how long it takes
// and where it comes out.
func walk(t *testing.T, plan topology.Plan, address layouts.Address) (time.Duration, string) {
	t.Helper()
	exchanges := make(map[string]topology.Exchange)
	for _, x := range plan.Exchanges {
		exchanges[x.Name] = x
	}
	queues := make(map[string]topology.Queue)
	for _, q := range plan.Queues {
		queues[q.Name] = q
	}
	var waited time.Duration
	at := address.Exchange
	for hops := 0; ; hops++ {
		if hops > 100 {
			t.Fatalf("%v goes round in circles", address)
		}
		x, ok := exchanges[at]
		if !ok {
			t.Fatalf("%v comes to exchange %q, which is not in the plan", address, at)
		}
		var matched *topology.Binding
		for _, b := range plan.Bindings {
			if b.Source == at && matches(b.Args, address.Headers) {
				if matched != nil {
					t.Fatalf("%v multiplies at %q: %v and %v", address, at, matched, b)
				}
				matched = &b
			}
		}
		switch {
		case at == layouts.LaterExchange && matched != nil:
			return waited, matched.Destination
		case at == layouts.LaterExchange:
			return waited, ""
		case matched == nil:
			at, _ = x.Args["alternate-exchange"].(string)
		default:
			q := queues[matched.Destination]
			waited += time.Duration(q.Args["x-message-ttl"].(int64)) * time.Millisecond
			at = q.Args["x-dead-letter-exchange"].(string)
			if key, ok := q.Args["x-dead-letter-routing-key"]; ok {
				t.Fatalf("queue %q changes the routing key to %v", q.Name, key)
			}
		}
	}
}

func matches(args topology.Args, headers map[string]any) bool {
	for name, value := range args {
		if name != "x-match" && headers[name] != value {
			return false
		}
	}
	return true
}

func checkCascade(t *testing.T, delay time.Duration) {
	t.Helper()
	native := layouts.Native{}
	address, err := layouts.CascadeAddress(delay, layouts.ToQueue)
	if err != nil {
		t.Fatalf("CascadeAddress(%v): got %v, want none", delay, err)
	}
	want := max(layouts.DelayUnit, (delay+layouts.DelayUnit-1)/layouts.DelayUnit*layouts.DelayUnit)
	got, out := walk(t, native.Cascade(delay), address)
	if got != want || out != layouts.ReturnExchange {
		t.Errorf("delay %v: got %v in the cascade and out at %q, want %v and %q", delay, got, out, want, layouts.ReturnExchange)
	}
	// With all levels there, because others have longer delays, it is the same.
	if full, _ := walk(t, native.Cascade(layouts.MaxDelay), address); full != want {
		t.Errorf("delay %v: got %v in the whole cascade, want %v", delay, full, want)
	}
}

func TestCascadeWaitsForTheDelay(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{-time.Hour, 0, 1, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, 100*time.Millisecond + 1, 101 * time.Millisecond,
		200 * time.Millisecond, 1700 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, layouts.MaxDelay - 1, layouts.MaxDelay}
	for level := range 28 {
		d := layouts.DelayUnit << level
		delays = append(delays, d-1, d, d+1)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		delays = append(delays, time.Duration(random.Int64N(int64(layouts.MaxDelay))))
	}
	for _, d := range delays {
		if d <= layouts.MaxDelay {
			checkCascade(t, d)
		}
	}
	for _, d := range []time.Duration{layouts.MaxDelay + 1, layouts.MaxDelay * 2, 1<<63 - 1} {
		if got, err := layouts.CascadeAddress(d, layouts.ToQueue); err == nil {
			t.Errorf("CascadeAddress(%v): got %v, want an error: it is longer than the longest", d, got)
		}
	}
}

func FuzzCascade(f *testing.F) {
	for _, d := range []time.Duration{0, 1, layouts.DelayUnit, 10 * time.Second, layouts.MaxDelay} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		if d := time.Duration(n); d <= layouts.MaxDelay && d > -layouts.MaxDelay {
			checkCascade(t, d)
		}
	})
}

// A delayed message leaves the cascade towards its own exchange only.
func TestLaterTo(t *testing.T) {
	t.Parallel()
	native := layouts.Native{}
	plan := native.Cascade(time.Second)
	for _, exchange := range []string{"order", "orders", "queue", "exchange order"} {
		topologies.Add(&plan, native.LaterTo(exchange))
	}
	for _, exchange := range []string{"order", "orders", "queue", "exchange order"} {
		address, err := layouts.CascadeAddress(time.Second, layouts.ToExchange(exchange))
		if err != nil {
			t.Fatal(err)
		}
		got, out := walk(t, plan, address)
		if got != time.Second {
			t.Errorf("to %q: got out after %v, want 1s", exchange, got)
		}
		i := slices.IndexFunc(plan.Queues, func(q topology.Queue) bool { return q.Name == out })
		if i < 0 || plan.Queues[i].Args["x-dead-letter-exchange"] != exchange || plan.Queues[i].Args["x-message-ttl"] != int64(0) {
			t.Errorf("to %q: got out at %q, want a queue of no delay that leads there", exchange, out)
		}
	}
}
