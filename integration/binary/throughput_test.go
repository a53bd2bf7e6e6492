package binary

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
)

var (
	rounds   = flag.Int("rounds", 1, "how often each side is measured")
	messages = flag.Int("messages", 1000, "how many messages a measurement takes")
	judge    = flag.Bool("judge", false, "fail if the ratio is below 0.8")
)

// least is what a flow must reach of the throughput of a bare loop.
const least = 0.8

// A flow to a local endpoint, compared with a bare loop of amqp091-go and net/http in a process of its own, turn by turn.
func TestThroughput(t *testing.T) {
	r := lab.Single(t)
	var arrived atomic.Int64
	first, last := make(chan time.Time, 1), make(chan time.Time, 1)
	endpoint := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch arrived.Add(1) {
		case 1:
			first <- time.Now()
		case int64(*messages):
			last <- time.Now()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	const concurrency, prefetch = 16, 64
	file := write(t, "flows: {work: {concurrency: %d, prefetch: %d, target: {http: '%s'}}}", concurrency, prefetch, endpoint)
	ch := dial(t, r.URL)
	up(t, "run", "--broker", r.URL, file).end() // which declares the queue
	body := make([]byte, 1024)
	measure := func(start func() *process) (rate float64, cpu time.Duration) {
		arrived.Store(0)
		publish(t, ch, "work", ids(*messages, "fine"), body)
		p := start()
		began := <-first // the start of the process counts for neither
		took := (<-last).Sub(began)
		lab.Eventually(t, soon, "everything acked", func() bool { return depth(t, ch, "work") == 0 })
		p.signal(syscall.SIGTERM)
		<-p.exited
		used := p.ProcessState.UserTime() + p.ProcessState.SystemTime()
		return float64(*messages) / took.Seconds(), used / time.Duration(*messages)
	}
	var ratios []float64
	for round := range *rounds {
		sides := []func() *process{
			func() *process { return bare(t, bareOrders{r.URL, "work", endpoint, concurrency, prefetch}) },
			func() *process { return up(t, "run", "--broker", r.URL, "--log-level", "warn", file) },
		}
		rates, cpu := make([]float64, 2), make([]time.Duration, 2)
		for i := range sides { // who is first changes from round to round
			side := (i + round) % 2
			rates[side], cpu[side] = measure(sides[side])
		}
		ratios = append(ratios, rates[1]/rates[0])
		t.Logf("bare loop %.0f/s with %v of CPU each, flow %.0f/s with %v, ratio %.2f", rates[0], cpu[0], rates[1], cpu[1], rates[1]/rates[0])
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("ratio: median %.2f of %d rounds, from %.2f to %.2f", median, len(ratios), ratios[0], ratios[len(ratios)-1])
	if *judge && median < least {
		t.Errorf("got a ratio of %.2f, want at least %.1f", median, least)
	}
}

// bare starts the bare loop.
func bare(t testing.TB, o bareOrders) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), bareRole+"="+string(text))
	p := launch(t, cmd)
	<-p.ready
	return p
}
