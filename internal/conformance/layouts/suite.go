package layouts

import (
	"context"
	"net"
	"testing"
)

// Broker is what a case runs on: a virtual host of its own.
type Broker struct {
	URL  string
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Virtual: time is that of testing/synctest, so the seeds' own waits of up to a day cost nothing.
	Virtual bool
}

// Case is one thing that a fleet with a layout does.
type Case struct {
	Name string
	Run  func(*Bench)
}

// section is the cases of a layout.
type section struct {
	name  string
	cases []Case
}

func sections() []section {
	return []section{
		{"pubsub", pubSubCases()},
		{"pubsub", pubSubByQueueCases()},
		{"dlx", dlxCases()},
		{"dlx", dlxAbnormalCases()},
		{"tiers", tiersCases()},
		{"tiers", tiersHTTPCases()},
		{"sneakers", sneakersCases()},
		{"envelope", envelopeCases()},
	}
}

// Cases are all cases, named layout/Name.
func Cases() []Case {
	var all []Case
	for _, s := range sections() {
		for _, c := range s.cases {
			c.Name = s.name + "/" + c.Name
			all = append(all, c)
		}
	}
	return all
}

// Run runs each case as a parallel subtest. open is called in the subtest, and calls the case with a fresh
// broker.
func Run(t *testing.T, open func(t *testing.T, run func(t *testing.T, b Broker))) {
	RunExcept(t, nil, open)
}

// RunExcept is Run for a broker on which some cases cannot be as they are on others, by name, with the reason: those are left out.
func RunExcept(t *testing.T, except map[string]string, open func(t *testing.T, run func(t *testing.T, b Broker))) {
	for _, c := range Cases() {
		if except[c.Name] != "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			open(t, func(t *testing.T, b Broker) { c.Run(&Bench{Broker: b, t: t}) })
		})
	}
}
