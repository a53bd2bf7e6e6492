package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// DoctorOptions are limits for Doctor, and what it cannot see on the broker.
type DoctorOptions struct {
	// HandlerTimeout is the longest time for which a consumer holds a message: the largest Subscriber.Timeout, plus the time that a
	// message waits in the prefetch of the consumer. Doctor compares it with the broker's consumer timeout. Default: not known, and not compared.
	HandlerTimeout time.Duration
	// Subscriptions describes subscriptions, by queue. For these queues it replaces HandlerTimeout. Default: nothing is known.
	Subscriptions map[string]DoctorSubscription
	// ConsumerTimeout is the broker's consumer_timeout. Set it for RabbitMQ before 4.0, whose API does not show it. Default: 30 minutes.
	ConsumerTimeout time.Duration
	// MaxFailed is from how many messages on a failed queue is a finding. Default: 1000.
	MaxFailed int
	// MaxUnacked is from how many unacked messages on a queue is a finding. Default: 1000.
	MaxUnacked int
	// MaxChurn is how many connections, channels or queues may be opened per second. Default: 50.
	MaxChurn float64
	// Watch is how long Doctor waits, if messages are being dead-lettered, to see whether they leave their queue. The broker's
	// counts are up to 10 s old, so a shorter time can report messages that are not stuck. Default: 15 s.
	Watch time.Duration
}

// DoctorSubscription describes a subscription to Doctor.
type DoctorSubscription struct {
	// HandlerTimeout is the longest time for which the subscription holds a message, as in DoctorOptions. Default: not known.
	HandlerTimeout time.Duration
	// Layout of the subscription. Default: not known, and guessed from what is on the broker.
	Layout layout.Layout
	// Priorities: the subscription sets rehop.Subscriber.MaxPriority, and its queue is a quorum queue. Default: it does not.
	Priorities bool
}

func (o DoctorOptions) withDefaults() DoctorOptions {
	o.ConsumerTimeout = cmp.Or(o.ConsumerTimeout, 30*time.Minute)
	o.MaxFailed = cmp.Or(o.MaxFailed, 1000)
	o.MaxUnacked = cmp.Or(o.MaxUnacked, 1000)
	o.MaxChurn = cmp.Or(o.MaxChurn, 50)
	o.Watch = cmp.Or(o.Watch, 15*time.Second)
	return o
}

// Doctor finds settings and states of the broker and the virtual host that can lose or delay messages; Checks lists them. It needs the
// management API. It sees most as a user with the tag administrator; what the user may not see is a finding, too. Doctor changes
// nothing, but it reads and requeues the first message of each delay queue.
func (a *Admin) Doctor(ctx context.Context, o DoctorOptions) (findings Findings, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("examine the broker: %w", err)
		}
	}()
	c := &checkup{admin: a, options: o.withDefaults(), now: time.Now()}
	if c.known, err = a.layouts.withSubscriptions(o.Subscriptions); err != nil {
		return nil, err
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	c.chart.shared, c.chart.roles, c.chart.letters = c.declaredByOthers(), c.roles(), c.letterSources()
	for _, check := range []func(){
		c.versions, c.flags, c.nodes, c.unroutable, c.churn,
		c.policies, c.mirrors, c.ownPolicies,
		c.queues, c.deadLetters, c.members, c.unreplicated, c.contents, c.layouts, c.priorities,
		c.exchanges, c.timeouts, c.consumers, c.channels, c.users,
		c.deprecated, // must be last: it skips features of which the other checks have found the objects
	} {
		check()
	}
	if err := c.stalled(ctx); err != nil {
		return c.findings, err
	}
	c.findings.sort()
	return c.findings, nil
}

// checkup is one run of Doctor.
type checkup struct {
	admin    *Admin
	known    layoutSet
	options  DoctorOptions
	now      time.Time
	chart    chart
	findings Findings
}

// find adds a finding with the severity of its check.
func (c *checkup) find(id string, object topology.Object, fix, found string, args ...any) {
	c.findAs("", id, object, fix, found, args...)
}

// findAs adds a finding with another severity.
func (c *checkup) findAs(severity Severity, id string, object topology.Object, fix, found string, args ...any) {
	i := slices.IndexFunc(checks, func(check Check) bool { return check.ID == id })
	if i < 0 {
		panic("admin: no check " + id)
	}
	c.findings = append(c.findings, Finding{ID: id, Severity: cmp.Or(severity, checks[i].Severity), Object: object,
		Found: fmt.Sprintf(found, args...), Why: checks[i].Why, Fix: fix})
}

// broker is the cluster as a whole.
func (c *checkup) broker() topology.Object {
	return topology.Object{Kind: "broker", Name: c.chart.overview.Cluster}
}

func (c *checkup) vhost() topology.Object {
	return topology.Object{Kind: "virtual host", Name: c.admin.management.vhost}
}

// role is what rehop uses a queue for. The zero value is for queues that rehop does not use, as far as is known.
type role int

const (
	roleConsumed  role = iota + 1 // subscriptions consume it
	roleDelay                     // messages wait there, and leave when their delay is over
	roleFailed                    // messages stay there until an operator replays or discards them
	roleMigrating                 // messages are kept there while their queue is migrated
	roleRecovered                 // the repair of an embedded broker has put messages there
)

// roles finds what rehop uses each queue for.
func (c *checkup) roles() map[string]role {
	live := c.chart.live
	returns := make(map[string]bool) // a binding of the return exchange makes a queue rehop's
	for _, b := range live.Bindings {
		if b.Source == layouts.ReturnExchange && !b.ToExchange && b.Key == b.Destination {
			returns[b.Destination] = true
		}
	}
	recognised := c.known.recognise(returns, func(queue string) bool {
		_, exists := live.Queue(queue)
		return exists
	})
	roles := make(map[string]role)
	for _, q := range live.Queues {
		of, isConsumed := recognised[q.Name]
		switch {
		case q.Name == layouts.OrphansQueue || q.Name == layouts.UnroutedQueue:
			roles[q.Name] = roleFailed
		case layouts.IsWaitQueue(q.Name), layouts.IsLandingQueue(q.Name) && returns[q.Name]:
			roles[q.Name] = roleDelay
		case layouts.Migrated(q.Name) != q.Name:
			roles[q.Name] = roleMigrating
		case layouts.IsRecoveredQueue(q.Name):
			roles[q.Name] = roleRecovered
		case isConsumed:
			roles[q.Name], roles[of.FailedQueue(q.Name)] = roleConsumed, roleFailed
		}
	}
	return roles
}
