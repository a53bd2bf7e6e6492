package config

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Rate bounds how many messages a flow hands to its target. The zero value bounds nothing.
type Rate struct {
	Messages float64       // so many
	Per      time.Duration // in this time
	Burst    int           // at once, after a pause
}

// PerSecond is the rate as a number. 0: unbounded.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return r.Messages / r.Per.Seconds()
}

// rate reads messages per time, or a mapping with the burst too.
func (r *reader) rate(to *Rate) func(*yaml.Node) {
	limit := func(n *yaml.Node) {
		text, shown, ok := r.scalar(n, "a rate as in 100/s")
		if !ok {
			return
		}
		messages, per, _ := strings.Cut(text, "/")
		number, err := strconv.ParseFloat(strings.TrimSpace(messages), 64)
		unit, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(per)]
		if err != nil || !known || !(number > 0 && number <= 1e9) {
			r.fault(n, "%s must be a rate, as in 100/s, 30/m or 10/h", shown)
			return
		}
		to.Messages, to.Per = number, unit
	}
	return func(n *yaml.Node) {
		to.Burst = 1
		if n.Kind != yaml.MappingNode {
			limit(n)
			return
		}
		at := r.mapping(n, "rate", keys{"limit": limit, "burst": r.count(&to.Burst)})
		if _, ok := at.keys["limit"]; !ok {
			r.fault(n, "rate has no limit")
		}
		if to.Burst < 1 {
			r.fault(at.at("burst"), "burst %d must be at least 1", to.Burst)
		}
	}
}

// longestHeld is how long a message may wait in this program for its turn: well below the half hour after which a broker takes it
// away.
const longestHeld = 10 * time.Minute

// checkRate finds rates at which messages would be held for too long. A flow with a rate fetches no more than it has hands, unless
// told otherwise: what waits here could be handled elsewhere.
func (r *reader) checkRate(f *Flow, at places) {
	if f.Rate.Per == 0 {
		return
	}
	s := &f.Subscriber
	s.Prefetch = cmp.Or(s.Prefetch, s.Concurrency, 1)
	if wait := f.LongestWait(); wait > longestHeld {
		r.fault(at.at("rate"), "flow %q: with a prefetch of %d, a message would wait for its turn for %v, and the longest is %v; lower prefetch and concurrency, or raise rate",
			f.Name, s.Prefetch, wait, longestHeld)
	}
}

// LongestWait is how long a message may be held until the rate lets it pass.
func (f Flow) LongestWait() time.Duration {
	if f.Rate.Per == 0 {
		return 0
	}
	return time.Duration(float64(max(f.Subscriber.Prefetch, f.Subscriber.Concurrency, 1)) / f.Rate.PerSecond() * float64(time.Second))
}
