package sweeping

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rehop/rehop/admin"
)

// The defaults are for `make test`; `make bench` sets larger ones:
//
//	go test ./sweeping -run '^TestRates$' -v -args -rounds=3 -messages=100000 -judge
var (
	rounds   = flag.Int("rounds", 1, "how often to measure")
	messages = flag.Int("messages", 3000, "how many messages fail")
	judge    = flag.Bool("judge", false, "fail if the rate of a sweep is below a third of that of confirmed publishing")
)

// goal is the least rate of a sweep, as a part of the rate of confirmed publishing.
const goal = 1.0 / 3

func TestRates(t *testing.T) { // not parallel: it measures
	s := newScene(t)
	rates := make(map[string][]float64)
	names := []string{"publish", "export", "count", "replay", "discard"}
	measure := func(name string, do func() (int, error)) {
		t.Helper()
		begin := time.Now()
		n, err := do()
		if took := time.Since(begin); err == nil && n == *messages {
			rates[name] = append(rates[name], float64(n)/took.Seconds())
			t.Logf("%s: %.0f messages per second", name, float64(n)/took.Seconds())
			return
		}
		t.Fatalf("%s: got %d messages and %v, want %d", name, n, err, *messages)
	}
	for range *rounds {
		measure("publish", func() (int, error) { return s.publish(*messages) })
		s.purge(queue)
		s.fill(*messages)
		measure("export", func() (int, error) { return s.admin.Export(s.ctx, queue, io.Discard, admin.Filter{}) })
		measure("count", func() (int, error) {
			n, err := s.admin.CountFailed(s.ctx, queue, admin.Filter{})
			return n.Messages, err
		})
		measure("replay", func() (int, error) {
			p, err := s.admin.Replay(s.ctx, queue, admin.Options{})
			return p.Done, err
		})
		if n := s.depth(queue); n != *messages {
			t.Fatalf("after the replay the queue has %d messages, want %d", n, *messages)
		}
		s.purge(queue)
		s.fill(*messages)
		measure("discard", func() (int, error) {
			p, err := s.admin.Discard(s.ctx, queue, admin.Options{})
			return p.Done, err
		})
		if n := s.depth(failed); n != 0 {
			t.Fatalf("after the discard the failed queue has %d messages, want none", n)
		}
	}
	fmt.Printf("\n%d failed messages of %d bytes in a quorum queue of RabbitMQ. Median of %d rounds.\n", *messages, bodySize, *rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tper second\tof publishing\t")
	for _, name := range names {
		slices.Sort(rates[name])
		rate, of := rates[name][*rounds/2], rates["publish"][*rounds/2]
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t\n", name, rate, rate/of)
		if *judge && rate < goal*of {
			t.Errorf("%s: got %.2f of the rate of confirmed publishing, want at least %.2f", name, rate/of, goal)
		}
	}
	_ = w.Flush()
}
