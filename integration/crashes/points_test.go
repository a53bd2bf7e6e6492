package crashes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/broker/brokertest"
)

// pointLimit is how long a point may take to be reached on a busy machine. One that is not reached shows nothing, and that is a failure.
const pointLimit = soon

// exitAtPoints: the process ends by itself at each named point of its log, with no chance to write anything more.
func exitAtPoints(t *testing.T, seed uint64) tally {
	b := newBroker(t, "")
	x := &exits{broker: b, random: rand.New(rand.NewPCG(seed, 3)), hits: make(map[string]int)}
	p := b.serve()
	x.traffic = newTraffic(t, b, seed)
	x.traffic.start()
	x.traffic.works(p)
	rounds := times(1, 10)
	for range rounds {
		for _, point := range brokertest.LogPoints() {
			x.strike("under any load", point, x.anyLoad)
		}
		for _, point := range groupPoints(t) {
			x.strike("while acks are written", point, func(o orders) bool { return x.answersAlone(o, false) })
			x.strike("while dead letters are written", point, func(o orders) bool { return x.answersAlone(o, true) })
		}
	}
	result := x.traffic.finish()
	result.kills, result.exits = x.kills+1, 0
	var lines []string
	for what, n := range x.hits {
		result.exits += n
		lines = append(lines, fmt.Sprintf("  %3d %s", n, what))
		if n < rounds {
			t.Errorf("INCONCLUSIVE: %s: %d exits, want %d", what, n, rounds)
		}
	}
	slices.Sort(lines)
	t.Logf("%d exits, %d confirmed, %d in doubt:\n%s", result.exits, result.confirmed, result.unknown, strings.Join(lines, "\n"))
	return result
}

// groupPoints are those that every write comes by.
func groupPoints(t *testing.T) (points []string) {
	for _, p := range brokertest.LogPoints() {
		if strings.Contains(p, "group") {
			points = append(points, p)
		}
	}
	if len(points) == 0 {
		t.Fatalf("no point of the log has to do with groups: %q", brokertest.LogPoints())
	}
	return points
}

// exits is the series of ends at points.
type exits struct {
	broker  *broker
	traffic *traffic
	random  *rand.Rand
	hits    map[string]int
	kills   int
}

// strike lets the process end at a point, and starts it again.
func (x *exits) strike(load, point string, under func(orders) bool) {
	x.broker.t.Helper()
	o := x.broker.orders
	o.Point, o.Hit = point, 1+x.random.Int64N(furthest(point))
	what := point + ", " + load
	x.hits[what] += 0
	if under(o) {
		x.hits[what]++
	} else {
		x.broker.t.Logf("%s: not reached %d times within %v", what, o.Hit, pointLimit)
		x.kill()
	}
	x.traffic.works(x.broker.serve())
}

func (x *exits) kill() {
	x.broker.t.Helper()
	x.broker.kill()
	x.kills++
}

// furthest is how often a point may be passed before the process ends at it.
func furthest(point string) int64 {
	for words, n := range map[string]int64{"group": 60, "segment": 8, "messages are copied": 4} {
		if strings.Contains(point, words) {
			return n
		}
	}
	return 1 // once in a life, or seldom
}

// anyLoad lets everything continue. What is passed while the broker starts comes after a kill, and what is passed while
// it stops after a signal.
func (x *exits) anyLoad(o orders) bool {
	x.broker.t.Helper()
	x.kill()
	p := x.broker.start(o)
	if strings.Contains(o.Point, "the end is noted") {
		x.traffic.works(p)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			x.broker.t.Fatal(err)
		}
	}
	if x.broker.exitsAtPoint(p, pointLimit/3) {
		return true
	}
	// Some things are done only when the log has little else to do.
	x.traffic.stopPublishing()
	defer x.traffic.startPublishing()
	return x.broker.exitsAtPoint(p, pointLimit)
}

// answersAlone has nothing but the answers of consumers, and of dead letters by them, written to the log.
func (x *exits) answersAlone(o orders, rejectAll bool) bool {
	x.broker.t.Helper()
	w := x.traffic
	w.stopConsuming()
	w.shows("a backlog", func() bool { return w.books.pending > backlog/6 })
	w.stopPublishing()
	x.kill()
	o.Hit = 1 + o.Hit%20 // there is not so much to answer
	p := x.broker.start(o)
	w.rejectAll = rejectAll
	w.startConsuming()
	ok := x.broker.exitsAtPoint(p, pointLimit)
	w.stopConsuming()
	w.rejectAll = false
	w.start()
	return ok
}
