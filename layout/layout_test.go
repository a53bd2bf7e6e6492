package layout_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/topology"
	"github.com/rehop/rehop/layout"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The plans are what lies on the brokers of users: a change of one is a migration for all of them.
func TestGoldenPlans(t *testing.T) {
	t.Parallel()
	quorum, classic := layout.Native{}, layout.Native{Type: layout.Classic}
	for name, plan := range map[string]topology.Plan{
		"base":         quorum.Base(),
		"base_classic": classic.Base(),
		"exchange":     quorum.Exchange("order", ""),
		"subscription_quorum": whole(t, quorum, layout.QueueSpec{Name: "order-summary", Exchange: "order",
			Keys: []string{"order.created", "order.#"}}),
		"subscription_classic": whole(t, classic, layout.QueueSpec{Name: "order-summary", Type: layout.Classic, Exchange: "order", Kind: "fanout"}),
		"subscription_foreign": whole(t, quorum, layout.QueueSpec{Name: "theirs", Passive: true, Exchange: "their exchange", ForeignExchange: true}),
		"subscription_bounded": whole(t, quorum, layout.QueueSpec{Name: "bounded", Args: map[string]any{"x-max-length": int64(1000)}}),
		"subscription_drop_head": whole(t, quorum, layout.QueueSpec{Name: "bounded",
			Args: map[string]any{"x-max-length": int64(1000), "x-overflow": "drop-head"}}),
		"step_10s":         quorum.Step(10 * time.Second),
		"step_10s_classic": classic.Step(10 * time.Second),
		"cascade_10s":      quorum.Cascade(10 * time.Second),
		"cascade_max":      quorum.Cascade(layout.MaxDelay),
		"later_to":         quorum.LaterTo("order"),
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

func TestFailedQueue(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 300)
	for _, queue := range []string{
		"", "q", "a.b", "a.failed", "名前", x[:247], x[:248], x[:249], x[:254], x[:255],
		strings.Repeat("ä", 127), strings.Repeat("ä", 127) + "x", "x" + strings.Repeat("ä", 127), strings.Repeat("😀", 63), "xyz" + strings.Repeat("😀", 63),
		strings.Repeat("€", 85),
	} {
		got := layout.FailedQueue(queue)
		if len(got) > 255 {
			t.Errorf("FailedQueue of %d bytes: got %d bytes, want at most 255", len(queue), len(got))
		}
		if !utf8.ValidString(got) {
			t.Errorf("FailedQueue(%q): got %q, want valid UTF-8", queue, got)
		}
		if !strings.HasSuffix(got, ".failed") {
			t.Errorf("FailedQueue(%q): got %q, want one that ends in .failed", queue, got)
		}
		if len(queue) <= 255-len(".failed") && got != queue+".failed" {
			t.Errorf("FailedQueue(%q): got %q, want %q", queue, got, queue+".failed")
		}
		if got != layout.FailedQueue(queue) {
			t.Errorf("FailedQueue(%q): got two different names", queue)
		}
	}
}

// Long names that differ only at their end have failed queues of their own.
func TestFailedQueuesDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, base := range []string{strings.Repeat("x", 254), strings.Repeat("ä", 126) + "xx", strings.Repeat("x", 248)} {
		for c := 'a'; c <= 'z'; c++ {
			queue := base + string(c)
			for _, name := range []string{layout.FailedQueue(queue), layout.LandingQueue(queue)} {
				if other, ok := seen[name]; ok {
					t.Errorf("%q: got for both %q and %q", name, other, queue)
				}
				seen[name] = queue
			}
		}
	}
}

// Invalid UTF-8 is possible in AMQP names; it must not hang or panic.
func FuzzFailedQueue(f *testing.F) {
	f.Add("q")
	f.Add(strings.Repeat("ä", 127))
	f.Add(strings.Repeat("\xff", 255))
	f.Add("\xff" + strings.Repeat("x", 254))
	f.Fuzz(func(t *testing.T, queue string) {
		if len(queue) > 255 {
			queue = queue[:255]
		}
		got := layout.FailedQueue(queue)
		if len(got) > 255 || !strings.HasSuffix(got, ".failed") {
			t.Errorf("FailedQueue(%q): got %q, want at most 255 bytes that end in .failed", queue, got)
		}
		if utf8.ValidString(queue) && !utf8.ValidString(got) {
			t.Errorf("FailedQueue(%q): got %q, want valid UTF-8", queue, got)
		}
	})
}

func TestStepName(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		time.Millisecond: "1ms", 1500 * time.Millisecond: "1.5s", 10 * time.Second: "10s", 100 * time.Second: "1m40s", time.Minute: "1m",
		10 * time.Minute: "10m", 90 * time.Minute: "1h30m", time.Hour: "1h", 2 * time.Hour: "2h", 10 * time.Hour: "10h", 100 * time.Hour: "100h",
		time.Hour + time.Second: "1h0m1s", time.Hour + 10*time.Second: "1h0m10s", 10*time.Minute + 30*time.Second: "10m30s", 20 * time.Minute: "20m",
		100*time.Hour + 20*time.Minute: "100h20m", layout.MaxDelay: "7456h32m25.5s",
	} {
		if got := layout.StepName(delay); got != want {
			t.Errorf("StepName(%d ns): got %q, want %q", delay, got, want)
		}
		if got := layout.StepQueue(delay); got != "rehop.step."+want || !layout.IsWaitQueue(got) {
			t.Errorf("StepQueue(%v): got %q, want rehop.step.%s", delay, got, want)
		}
		if back, err := time.ParseDuration(layout.StepName(delay)); err != nil || back != delay {
			t.Errorf("StepName(%v): got %q, which means %v (%v)", delay, layout.StepName(delay), back, err)
		}
	}
}

func TestStepNamesDiffer(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	seen := make(map[string]time.Duration)
	for range 20_000 {
		delay := time.Duration(1+random.Int64N(int64(layout.MaxDelay/time.Millisecond))) * time.Millisecond
		if random.IntN(2) == 0 {
			delay = delay.Round(time.Minute) + time.Minute
		}
		name := layout.StepName(delay)
		if other, ok := seen[name]; ok && other != delay {
			t.Fatalf("StepName: got %q for both %v and %v", name, other, delay)
		}
		seen[name] = delay
	}
}

// walk follows a message through a cascade's plan as the broker would, and returns how long it takes
// and where it comes out.
func walk(t *testing.T, plan topology.Plan, address layout.Address) (time.Duration, string) {
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
		case at == layout.LaterExchange && matched != nil:
			return waited, matched.Destination
		case at == layout.LaterExchange:
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
	native := layout.Native{}
	address, err := layout.CascadeAddress(delay, layout.ToQueue)
	if err != nil {
		t.Fatalf("CascadeAddress(%v): got %v, want none", delay, err)
	}
	want := max(layout.DelayUnit, (delay+layout.DelayUnit-1)/layout.DelayUnit*layout.DelayUnit)
	got, out := walk(t, native.Cascade(delay), address)
	if got != want || out != layout.ReturnExchange {
		t.Errorf("delay %v: got %v in the cascade and out at %q, want %v and %q", delay, got, out, want, layout.ReturnExchange)
	}
	// With all levels there, because others have longer delays, it is the same.
	if full, _ := walk(t, native.Cascade(layout.MaxDelay), address); full != want {
		t.Errorf("delay %v: got %v in the whole cascade, want %v", delay, full, want)
	}
}

func TestCascadeWaitsForTheDelay(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{-time.Hour, 0, 1, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, 100*time.Millisecond + 1, 101 * time.Millisecond,
		200 * time.Millisecond, 1700 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, layout.MaxDelay - 1, layout.MaxDelay}
	for level := range 28 {
		d := layout.DelayUnit << level
		delays = append(delays, d-1, d, d+1)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		delays = append(delays, time.Duration(random.Int64N(int64(layout.MaxDelay))))
	}
	for _, d := range delays {
		if d <= layout.MaxDelay {
			checkCascade(t, d)
		}
	}
	for _, d := range []time.Duration{layout.MaxDelay + 1, layout.MaxDelay * 2, 1<<63 - 1} {
		if got, err := layout.CascadeAddress(d, layout.ToQueue); err == nil {
			t.Errorf("CascadeAddress(%v): got %v, want an error: it is longer than the longest", d, got)
		}
	}
}

func FuzzCascade(f *testing.F) {
	for _, d := range []time.Duration{0, 1, layout.DelayUnit, 10 * time.Second, layout.MaxDelay} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		if d := time.Duration(n); d <= layout.MaxDelay && d > -layout.MaxDelay {
			checkCascade(t, d)
		}
	})
}

// A delayed message leaves the cascade towards its own exchange only.
func TestLaterTo(t *testing.T) {
	t.Parallel()
	native := layout.Native{}
	plan := native.Cascade(time.Second)
	for _, exchange := range []string{"order", "orders", "queue", "exchange order"} {
		plan.Add(native.LaterTo(exchange))
	}
	for _, exchange := range []string{"order", "orders", "queue", "exchange order"} {
		address, err := layout.CascadeAddress(time.Second, layout.ToExchange(exchange))
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

// Every queue that a plan's bindings and arguments name is there, or belongs to the base.
func TestPlansAreComplete(t *testing.T) {
	t.Parallel()
	for _, kind := range []layout.QueueType{"", layout.Quorum, layout.Classic} {
		native := layout.Native{Type: kind}
		plan := native.Base()
		plan.Add(whole(t, native, layout.QueueSpec{Name: "q", Type: kind, Exchange: "x"}))
		plan.Add(whole(t, native, layout.QueueSpec{Name: "full", Type: kind, Args: map[string]any{"x-max-length": int64(1), "x-overflow": "reject-publish"}}))
		plan.Add(native.Step(time.Second))
		plan.Add(native.Cascade(layout.MaxDelay))
		plan.Add(native.LaterTo("x"))
		names := map[string]bool{"": true}
		for _, x := range plan.Exchanges {
			names["exchange "+x.Name] = true
		}
		for _, q := range plan.Queues {
			names["queue "+q.Name] = true
		}
		need := func(who, what string) {
			t.Helper()
			if !names[what] {
				t.Errorf("%q: %s needs %s, which is not in the plan", kind, who, what)
			}
		}
		for _, x := range plan.Exchanges {
			if alternate, ok := x.Args["alternate-exchange"]; ok {
				need("exchange "+x.Name, fmt.Sprintf("exchange %s", alternate))
			}
		}
		for _, q := range plan.Queues {
			if dead, ok := q.Args["x-dead-letter-exchange"]; ok && dead != "" {
				need("queue "+q.Name, fmt.Sprintf("exchange %s", dead))
			}
			if strategy := q.Args["x-dead-letter-strategy"]; strategy != nil && (q.Args["x-queue-type"] != "quorum" || q.Args["x-overflow"] != "reject-publish") {
				t.Errorf("queue %q: got strategy %v with type %v, overflow %v, which RabbitMQ refuses", q.Name, strategy, q.Args["x-queue-type"], q.Args["x-overflow"])
			}
		}
		for _, b := range plan.Bindings {
			need("a binding", "exchange "+b.Source)
			if b.ToExchange {
				need("a binding", "exchange "+b.Destination)
			} else {
				need("a binding", "queue "+b.Destination)
			}
		}
	}
}

// whole is all that a subscription declares.
func whole(t *testing.T, l layout.Layout, spec layout.QueueSpec) layout.Plan {
	t.Helper()
	native, _ := l.(layout.Native)
	plan, err := layout.Whole(l, native, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
