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

// DoctorOptions are what Doctor cannot see on the broker, and where it begins to worry.
type DoctorOptions struct {
	// HandlerTimeout is the longest time that a consumer holds a message: the largest Subscriber.Timeout, with the
	// time that its messages wait behind others in the prefetch. Default: not known, and not compared with the
	// broker's consumer timeout.
	HandlerTimeout time.Duration
	// Subscriptions is what is known of those who consume, by queue. It holds for these queues instead of HandlerTimeout.
	Subscriptions map[string]DoctorSubscription
	// ConsumerTimeout is the broker's consumer_timeout, for releases before 4.0, whose API does not show it. Default: 30 minutes.
	ConsumerTimeout time.Duration
	// MaxFailed is how many messages may rest in a failed queue. Default: 1000.
	MaxFailed int
	// MaxUnacked is how many messages of one queue consumers may hold. Default: 1000.
	MaxUnacked int
	// MaxChurn is how many connections, or channels, may be opened per second. Default: 50.
	MaxChurn float64
	// Watch is how long messages that are about to leave a queue are watched, if there are any. Only if they are
	// as many then are they said to stand still. The broker's figures are up to 10 s old. Default: 15 s.
	Watch time.Duration
}

// DoctorSubscription describes a subscription to Doctor.
type DoctorSubscription struct {
	// HandlerTimeout is the longest time that it holds a message, as in DoctorOptions. 0: not known.
	HandlerTimeout time.Duration
	// Layout is that of the subscription. Default: not known, and guessed from what is on the broker.
	Layout layout.Layout
	// Priorities: it has a highest priority, and its queue is a quorum queue (rehop.Subscriber.MaxPriority and QueueType).
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

// Doctor examines the broker and the virtual host for what is known to lose messages or to hold them up. It needs the
// management API, and sees most as a user with the tag administrator; what the user may not see is a finding, too.
// It changes nothing; of each queue in which messages wait it takes the first one in hand and puts it back.
func (a *Admin) Doctor(ctx context.Context, o DoctorOptions) (Findings, error) {
	there, err := a.layouts.withSubscriptions(o.Subscriptions)
	if err != nil {
		return nil, fmt.Errorf("examine the broker: %w", err)
	}
	c := &checkup{admin: a, layoutsThere: there, options: o.withDefaults(), now: time.Now()}
	if err := c.read(ctx); err != nil {
		return nil, fmt.Errorf("examine the broker: %w", err)
	}
	c.chart.shared = c.declaredByOthers()
	for _, check := range []func(){
		c.versions, c.flags, c.nodes, c.unroutable, c.churn,
		c.policies, c.mirrors, c.ownPolicies,
		c.queues, c.deadLetters, c.members, c.unreplicated, c.contents, c.layouts, c.priorities,
		c.exchanges, c.timeouts, c.consumers, c.channels, c.users,
		c.deprecated, // it leaves out what was found of single objects
	} {
		check()
	}
	if err := c.stalled(ctx); err != nil {
		return c.findings, fmt.Errorf("examine the broker: %w", err)
	}
	c.findings.sort()
	return c.findings, nil
}

// checkup is one examination.
type checkup struct {
	admin        *Admin
	layoutsThere layoutSet
	options      DoctorOptions
	now          time.Time
	chart        chart
	findings     Findings
}

// find notes a finding with the severity that its ailment has at the most.
func (c *checkup) find(id string, object topology.Object, fix, found string, args ...any) {
	c.findAs("", id, object, fix, found, args...)
}

// findAs notes a finding with another severity.
func (c *checkup) findAs(severity Severity, id string, object topology.Object, fix, found string, args ...any) {
	i := slices.IndexFunc(ailments, func(a Ailment) bool { return a.ID == id })
	if i < 0 {
		panic("admin: no ailment " + id)
	}
	c.findings = append(c.findings, Finding{ID: id, Severity: cmp.Or(severity, ailments[i].Severity), Object: object,
		Found: fmt.Sprintf(found, args...), Why: ailments[i].Why, Fix: fix})
}

// broker is the cluster as a whole.
func (c *checkup) broker() topology.Object {
	return topology.Object{Kind: "broker", Name: c.chart.overview.Cluster}
}

func (c *checkup) vhost() topology.Object {
	return topology.Object{Kind: "virtual host", Name: c.admin.management.vhost}
}

// role is what rehop uses a queue for.
type role int

const (
	foreign   role = iota // nothing that is known
	consumed              // subscriptions consume it, or shall
	waiting               // messages wait there, and leave by themselves
	resting               // messages rest there until a person takes them
	moving                // messages are kept there while their queue is migrated
	recovered             // the repair of an embedded broker has put messages there
)

// roles finds what rehop uses each queue for.
func (c *checkup) roles() map[string]role {
	live := c.chart.live
	returns := make(map[string]bool) // the way back to it is what makes a queue rehop's
	for _, b := range live.Bindings {
		if b.Source == layouts.ReturnExchange && !b.ToExchange && b.Key == b.Destination {
			returns[b.Destination] = true
		}
	}
	recognised := c.layoutsThere.recognise(returns, func(queue string) bool {
		_, there := live.Queue(queue)
		return there
	})
	roles := make(map[string]role)
	for _, q := range live.Queues {
		of, isConsumed := recognised[q.Name]
		switch {
		case q.Name == layouts.OrphansQueue || q.Name == layouts.UnroutedQueue:
			roles[q.Name] = resting
		case layouts.IsWaitQueue(q.Name), layouts.IsLandingQueue(q.Name) && returns[q.Name]:
			roles[q.Name] = waiting
		case layouts.Moved(q.Name) != q.Name:
			roles[q.Name] = moving
		case layouts.IsRecoveredQueue(q.Name):
			roles[q.Name] = recovered
		case isConsumed:
			roles[q.Name], roles[of.FailedQueue(q.Name)] = consumed, resting
		}
	}
	return roles
}
