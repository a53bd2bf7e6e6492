package brokers

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
)

// Without flags this is a smoke test of a few seconds, whose numbers mean nothing. To measure, run make bench, and compare
// the ratios: brokers and client share the machine.
var (
	rounds     = flag.Int("rounds", 1, "how often everything is measured; the table shows medians")
	messages   = flag.Int("messages", 1000, "messages per round; a tenth of that one at a time")
	size       = flag.Int("size", 256, "size of a body in bytes")
	publishers = flag.Int("publishers", 64, "goroutines that publish")
	prefetch   = flag.Int("prefetch", 256, "messages that the broker sends ahead")
	only       = flag.String("only", "", "comma-separated brokers to measure; default all")
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveIn); dir != "" {
		os.Exit(serve(dir))
	}
	if dir := os.Getenv(floorIn); dir != "" {
		os.Exit(beFloor(dir))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// contender is a broker with a kind of queue.
type contender struct {
	name string
	url  string
	args amqp.Table
}

func TestBrokers(t *testing.T) {
	rabbit, embedded, floor := lab.Single(t), start(t), startFloor(t)
	all := []contender{
		{"embedded", embedded.url, amqp.Table{"x-queue-type": "quorum"}},
		{"RabbitMQ quorum", rabbit.URL, amqp.Table{"x-queue-type": "quorum"}},
		{"RabbitMQ classic", rabbit.URL, nil},
	}
	if *only != "" {
		all = slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(strings.Split(*only, ","), c.name) })
	}
	all = append(all, floor)
	results := make(map[string][]measure)
	for round := range *rounds {
		sums := make(map[string]measure)
		add := func(scenario, name string, got measure, err error) {
			if err != nil {
				t.Fatalf("%s: %s: %v", scenario, name, err)
			}
			sums[scenario+"/"+name] = sums[scenario+"/"+name].plus(got)
		}
		for turn := range turns {
			for _, i := range rand.Perm(len(all)) { // so that none always has to do with what the same other has left
				c := all[i]
				for _, s := range scenarios {
					if c.name == floorName && !s.floored {
						continue
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					got, err := s.run(ctx, c, fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(c.name, " ", "-"), round, turn))
					cancel()
					add(s.name, c.name, got, err)
				}
			}
			for _, d := range disks {
				got, err := d.write(embedded.dir, single())
				add(oneByOneName, d.name, got, err)
			}
		}
		for key, sum := range sums {
			t.Logf("round %d: %-40s %8.0f msgs/s, p50 %v, p99 %v", round+1, key, sum.rate(), sum.quantile(50), sum.quantile(99))
			results[key] = append(results[key], sum)
		}
	}
	fmt.Printf("\n%d B persistent messages, one durable queue; prefetch %d. %d rounds of %d messages, in short turns; ratios are medians of the rounds' ratios.\n",
		*size, *prefetch, *rounds, *messages)
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	for _, d := range disks {
		names = append(names, d.name)
	}
	print(names, results)
}

// turns is how many turns each broker has in a round. They are short, so that what makes the machine slow or quick for a while does so
// to all.
const turns = 4

// inTurn and single are how many messages a broker gets in a turn, together or one after the other.
func inTurn() int { return max(*messages/turns, 100) }
func single() int { return max(*messages/turns/10, 25) }

// measure is what some runs of a scenario showed.
type measure struct {
	n         int // messages
	took      time.Duration
	latencies []time.Duration // of confirms, or none
}

func (m measure) plus(other measure) measure {
	return measure{m.n + other.n, m.took + other.took, slices.Concat(m.latencies, other.latencies)}
}

// rate is that of messages per second.
func (m measure) rate() float64 { return float64(m.n) / m.took.Seconds() }

func (m measure) quantile(percent int) time.Duration {
	if len(m.latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m.latencies))
	return sorted[len(sorted)*percent/100]
}

func print(names []string, results map[string][]measure) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tbroker\tmsgs/s\t(min–max)\tembedded is\tp50\tp99\t")
	for _, s := range scenarios {
		ours := results[s.name+"/embedded"]
		for _, name := range names {
			m := results[s.name+"/"+name]
			if len(m) == 0 {
				continue
			}
			rates, p50, p99, ratios := []float64{}, []time.Duration{}, []time.Duration{}, []float64{}
			for i, r := range m {
				rates, p50, p99 = append(rates, r.rate()), append(p50, r.quantile(50)), append(p99, r.quantile(99))
				if i < len(ours) {
					ratios = append(ratios, ours[i].rate()/r.rate())
				}
			}
			times := "–"
			if len(ratios) > 0 {
				times = fmt.Sprintf("%.2f ×", median(ratios))
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t(%.0f–%.0f)\t%s\t%v\t%v\t\n", s.name, name, median(rates), slices.Min(rates), slices.Max(rates), times,
				median(p50).Round(time.Microsecond), median(p99).Round(time.Microsecond))
		}
	}
	_ = w.Flush()
}

func median[T ~int64 | ~float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
