package amqp

import (
	"context"
	"net"
	"testing"
)

// Target is a broker under test, and what cannot be done to it by AMQP.
type Target interface {
	// Dial opens a new transport to the broker.
	Dial(ctx context.Context) (net.Conn, error)
	// Vhost makes a fresh virtual host with a user of its own, who may do everything there. Both are
	// gone at the end of the test.
	Vhost(t testing.TB) Vhost
	// AddUser makes a user with these permissions on a virtual host, until the end of the test.
	AddUser(t testing.TB, vhost, configure, write, read string) (user, password string)
	// SetPolicy makes or changes a policy of a virtual host.
	SetPolicy(t testing.TB, vhost string, policy Policy)
	// DeletePolicy removes a policy of a virtual host.
	DeletePolicy(t testing.TB, vhost, name string)
	// SetVhostLimit bounds what a virtual host may have, and SetUserLimit what a user may.
	SetVhostLimit(t testing.TB, vhost, name string, limit int)
	SetUserLimit(t testing.TB, user, name string, limit int)
	// SetTopicPermission bounds the keys that a user may publish to an exchange with, and bind to it.
	SetTopicPermission(t testing.TB, vhost, user, exchange, write, read string)
	// SetDefaultQueueType sets the type of queues that are declared without one.
	SetDefaultQueueType(t testing.TB, vhost, typ string)
	// Version is the version of RabbitMQ that the broker is or follows.
	Version() string
}

// Vhost is a virtual host and who may do everything there.
type Vhost struct {
	Name     string
	User     string
	Password string
}

// Policy is a policy as RabbitMQ's management API has it.
type Policy struct {
	Name       string         `json:"-"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"` // queues, exchanges or all
	Priority   int            `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// Case is one thing that a client can see of a broker.
type Case struct {
	Name string
	Doc  string // which page and section of RabbitMQ's documentation, or of the specification, requires it
	Run  func(t *testing.T, b *Bench)
}

// section is a family of cases.
type section struct {
	name  string
	parts []part
}

// part are the cases of a section that hold for the same releases.
type part struct {
	releases
	cases []Case
}

// always are cases that hold for every release. What differs between releases is in the case itself.
func always(cases []Case) []part { return []part{{releases{}, cases}} }

func sections() []section {
	return []section{
		{"connection", always(connectionCases())},
		{"malformed", always(malformedCases())},
		{"channel", always(channelCases())},
		{"exchange", always(exchangeCases())},
		{"alternate", always(alternateCases())},
		{"binding", always(bindingCases())},
		{"routing", always(routingCases())},
		{"queue", always(queueCases())},
		{"argument", always(argumentCases())},
		{"permission", always(permissionCases())},
		{"restriction", always(restrictionCases())},
		{"nowait", always(noWaitCases())},
		{"publish", always(publishCases())},
		{"get", always(getCases())},
		{"consume", always(consumeCases())},
		{"qos", always(qosCases())},
		{"acks", always(acksCases())},
		{"tx", always(txCases())},
		{"ttl", always(ttlCases())},
		{"deadletter", always(deadLetterCases())},
		{"limits", always(limitsCases())},
		{"priorities", always(prioritiesCases())},
		{"quorum", always(quorumCases())},
		{"timeouts", timeoutCases()},
		{"singleactive", always(singleActiveCases())},
		{"delayedretry", delayedRetryCases()},
		{"policies", always(policiesCases())},
		{"replies", always(repliesCases())},
	}
}

// Cases are all cases, named Section/Name.
func Cases() []Case {
	var all []Case
	for _, s := range sections() {
		for _, p := range s.parts {
			for _, c := range p.cases {
				c.Name = s.name + "/" + c.Name
				all = append(all, c)
			}
		}
	}
	return all
}

// Run runs each case as a parallel subtest, and skips the parts of sections that do not hold for the target's release. The flag
// -parallel bounds how many virtual hosts there are at a time.
func Run(t *testing.T, target Target) {
	have, err := releaseOf(target.Version())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range s.parts {
				if !p.include(have) {
					t.Run(p.releases.String(), func(t *testing.T) {
						t.Skipf("%d cases hold %s, and the broker is, or follows, %s", len(p.cases), p.releases, have)
					})
					continue
				}
				for _, c := range p.cases {
					t.Run(c.Name, func(t *testing.T) {
						t.Parallel()
						b := NewBench(t, target)
						c.Run(t, b)
						b.wantUsed()
					})
				}
			}
		})
	}
}
