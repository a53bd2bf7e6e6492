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
	cases []Case
}

func sections() []section {
	return []section{
		{"connection", connectionCases()},
		{"malformed", malformedCases()},
		{"channel", channelCases()},
		{"exchange", exchangeCases()},
		{"alternate", alternateCases()},
		{"binding", bindingCases()},
		{"routing", routingCases()},
		{"queue", queueCases()},
		{"argument", argumentCases()},
		{"permission", permissionCases()},
		{"restriction", restrictionCases()},
		{"nowait", noWaitCases()},
		{"publish", publishCases()},
		{"get", getCases()},
		{"consume", consumeCases()},
		{"qos", qosCases()},
		{"acks", acksCases()},
		{"tx", txCases()},
		{"ttl", ttlCases()},
		{"deadletter", deadLetterCases()},
		{"limits", limitsCases()},
		{"priorities", prioritiesCases()},
		{"quorum", quorumCases()},
		{"timeouts", timeoutCases()},
		{"singleactive", singleActiveCases()},
		{"delayedretry", delayedRetryCases()},
		{"policies", policiesCases()},
		{"replies", repliesCases()},
	}
}

// Cases are all cases, named Section/Name.
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

// Run runs each case as a parallel subtest. The flag -parallel bounds how many virtual hosts there are
// at a time.
func Run(t *testing.T, target Target) {
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range s.cases {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					c.Run(t, NewBench(t, target))
				})
			}
		})
	}
}
