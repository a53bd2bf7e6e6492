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
	from  string // the first release of RabbitMQ on which that happens, if it is not all of them
	cases []Case
}

func sections() []section {
	return []section{
		{"pubsub", "", pubSubCases()},
		{"pubsub", "", pubSubByQueueCases()},
		{"dlx", "", dlxCases()},
		{"dlx", "", dlxAbnormalCases()},
		{"tiers", "", tiersCases()},
		{"tiers", "", tiersHTTPCases()},
		{"sneakers", "", sneakersCases()},
		{"envelope", "", envelopeCases()},
		{"pubsub", unread, pubSubUnreadCases()},
		{"tiers", unread, tiersUnreadCases()},
		{"sneakers", unread, sneakersUnreadCases()},
		{"sneakers", flagged, sneakersFlaggedCases()},
		{"envelope", flagged, envelopeFlaggedCases()},
	}
}

// Cases are all cases, named layout/Name.
func Cases() []Case { return casesOf(latest) }

// latest is after every release.
const latest = "9"

// casesOf are the cases of a release of RabbitMQ.
func casesOf(release string) []Case {
	var all []Case
	for _, s := range sections() {
		if release < s.from {
			continue
		}
		for _, c := range s.cases {
			c.Name = s.name + "/" + c.Name
			all = append(all, c)
		}
	}
	return all
}

// Run runs each case of a release of RabbitMQ as a parallel subtest. open is called in the subtest, and calls the case with a fresh
// broker. The release's exceptions must fail, as far as they
// can be run.
func Run(t *testing.T, release string, open func(t *testing.T, run func(t *testing.T, b Broker))) {
	except := Exceptions(release)
	for _, c := range casesOf(release) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			open(t, func(t *testing.T, b Broker) {
				switch reason := except[c.Name]; {
				case reason == "":
					c.Run(&Bench{Broker: b, t: t})
				case !unsure[c.Name]:
					wantFailure(t, c, b, reason)
				}
			})
		})
	}
}
