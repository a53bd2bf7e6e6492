package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Migration is what is needed to give a queue other arguments. RabbitMQ cannot change the arguments of an existing queue: the queue has
// to be deleted and declared again, and meanwhile its messages are kept in another queue.
type Migration struct {
	Queue string `json:"queue"`
	// Changes are the differences between the queue and the plan.
	Changes topology.Diff `json:"changes"`
	// Steps are what is to be done. If there are none, the queue is as planned, and nothing is left of an earlier migration.
	Steps []Step `json:"steps"`
	// Resumed: an earlier run has done some of the steps.
	Resumed bool `json:"resumed"`
	// Warnings are effects that you may not expect.
	Warnings []string `json:"warnings,omitempty"`
}

// String has a line for each change, warning and step.
func (m Migration) String() string {
	var s strings.Builder
	for _, d := range m.Changes {
		fmt.Fprintf(&s, "%s: %s is %s, planned is %s\n", d.Object, d.Argument, argument(d.Have), argument(d.Want))
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(&s, "warning: %s\n", w)
	}
	for i, step := range m.Steps {
		fmt.Fprintf(&s, "%2d. %s\n", i+1, step)
	}
	return cmp.Or(s.String(), "nothing to do\n")
}

// MigrateOptions are options of Migrate and PlanMigration.
type MigrateOptions struct {
	// Consumers is what to do while the queue has consumers. Default: RefuseConsumers.
	Consumers ConsumerRule
	// KeepOrder keeps the order of messages: messages that are published during the migration wait until the older ones are back in
	// the queue. Twice, for about a second, the broker refuses messages, as a full queue does, so publishers must publish them again;
	// messages of publishers that do not wait for confirms are lost in that time. Subscribers of rehop wait until the end. Other
	// consumers must not start before the end: once they bind the queue, each published message reaches it twice. Default: the queue
	// receives new messages as soon as it exists, and the older ones follow; but a queue that is to be handled in order by key
	// (rehop.Subscriber.OrderBy) always keeps its order.
	KeepOrder bool
	// Settle is for how long no message must have arrived in the queue before it is deleted. Choose more if publishers that use the name
	// of the queue publish seldom. In any case the queue is deleted only when the broker's statistics, which must be newer than its last
	// message, show no unacked messages; RabbitMQ takes up to about 20 s for that. Default: 12 s.
	Settle time.Duration
	// Progress is called at each step, and while messages are moved. Default: none.
	Progress func(MigrationProgress)
}

// ConsumerRule is what a migration does while the queue has consumers.
type ConsumerRule string

const (
	// RefuseConsumers returns ErrConsumers before anything is changed.
	RefuseConsumers ConsumerRule = "refuse"
	// AwaitConsumers waits until there are none.
	AwaitConsumers ConsumerRule = "wait"
	// IgnoreConsumers migrates the queue while it is consumed. Consumers help to empty it. It is deleted when they have no unacked
	// messages, and the broker then cancels them. A consumer that declares the queue with its old arguments at that moment is in the way.
	IgnoreConsumers ConsumerRule = "ignore"
)

// MigrationProgress is how far a migration is.
type MigrationProgress struct {
	Step    int    // the number of the current step in this run, from 1
	Steps   int    // how many steps there are
	Now     Step   // the current step
	Moved   int    // messages that this run has moved, in both directions
	Left    int    // messages that this step has still to move, as far as the broker knew
	Waiting string // what the migration waits for, if anything
}

// ErrConsumers: the queue has consumers, or consumers of another queue publish to it. Stop them, or set MigrateOptions.Consumers.
var ErrConsumers = errors.New("the queue has consumers")

const defaultSettle = 12 * time.Second

// PlanMigration returns what Migrate would do. It changes nothing, but it declares and deletes a queue rehop.try.ID to find out whether
// the broker accepts the new arguments. It needs the management API.
func (a *Admin) PlanMigration(ctx context.Context, plan topology.Plan, queue string, o MigrateOptions) (Migration, error) {
	m, err := a.newMigration(plan, queue, o)
	if err != nil {
		return Migration{}, err
	}
	if err := m.refresh(ctx); err != nil {
		return Migration{}, m.fault(err)
	}
	return m.value(), nil
}

// Migrate gives a queue the arguments of the plan, under the same name, without losing messages. It needs the management API.
//
// Publishers can publish to exchanges all the time. While the queue is replaced, its messages are kept in the queue
// rehop.migrating.<queue>. Each message is moved there and back by a copy with the same properties, headers and routing key; the original
// is removed after the broker has confirmed the copy. Publishers that use the name of the queue, through the default exchange, must
// pause: the queue is deleted when no message has arrived for MigrateOptions.Settle.
//
// Migrate returns an error, and changes nothing, if a policy would remove messages from the queue that keeps them or from the new queue,
// or if policies of the plan for the queue are not set; Apply sets them.
//
// When ctx ends or the process dies, call Migrate again: it continues from what it finds on the broker. Each time a process dies, up to
// 256 messages may be in the queue twice. With the plan of the old queue, Migrate undoes an unfinished migration.
func (a *Admin) Migrate(ctx context.Context, plan topology.Plan, queue string, o MigrateOptions) (Migration, error) {
	m, err := a.newMigration(plan, queue, o)
	if err != nil {
		return Migration{}, err
	}
	if err := m.lock(ctx); err != nil {
		return Migration{}, m.ended(ctx, err)
	}
	defer m.unlock()
	if err := m.refresh(ctx); err != nil {
		return Migration{}, m.ended(ctx, err)
	}
	all := m.value()
	if err := m.run(ctx); err != nil {
		return all, m.ended(ctx, err)
	}
	return all, nil
}

// migration is one run.
type migration struct {
	admin    *Admin
	want     topology.Queue
	policies []topology.Policy // of the plan
	letters  topology.Plan     // where the planned queue dead-letters to, and its held queue
	ordered  bool              // the plan has messages handled in order by key
	options  MigrateOptions

	have     topology.LiveQueue // the queue, at the last refresh
	kept     topology.LiveQueue // the queue that keeps messages
	fresh    topology.LiveQueue // the new queue, with its settings by policies
	held     topology.LiveQueue // the held queue, if messages are handled in order by key
	changes  topology.Diff
	missing  topology.Plan // what of letters the broker does not have
	state    migrationState
	consumed bool                 // subscriptions consume the queue; otherwise it may be a failed queue
	movers   []topology.LiveQueue // queues with consumers that publish to this one by its name
	feeders  []feeder             // queues that dead-letter to this one by its name
	instant  bool                 // the broker's statistics are never late
	tried    bool                 // the broker has accepted a queue with the wanted arguments
	typing   *typing              // of bindings
	unread   bool                 // only the broker knows which policies apply to the queue that keeps messages

	progress MigrationProgress
	moved    volume
}

func (a *Admin) newMigration(plan topology.Plan, queue string, o MigrateOptions) (*migration, error) {
	i := slices.IndexFunc(plan.Queues, func(q topology.Queue) bool { return q.Name == queue })
	o.Settle = cmp.Or(o.Settle, defaultSettle)
	o.Consumers = cmp.Or(o.Consumers, RefuseConsumers)
	m := &migration{admin: a, options: o, want: topology.Queue{Name: queue}, typing: a.newTyping()}
	switch {
	case a.management.base == "":
		return nil, m.fault(ErrNoManagement)
	case i < 0:
		return nil, m.fault(errors.New("the plan has no such queue"))
	case plan.Queues[i].Passive:
		return nil, m.fault(errors.New("in the plan it belongs to another application"))
	case plan.Queues[i].Temporary():
		return nil, m.fault(errors.New("in the plan it is a temporary queue: stop its consumers, and it is declared as planned when they start again"))
	case plan.Queues[i].Args["x-queue-type"] == "stream":
		return nil, m.fault(errors.New("a stream keeps consumed messages, so it cannot be migrated"))
	case !slices.Contains([]ConsumerRule{RefuseConsumers, AwaitConsumers, IgnoreConsumers}, o.Consumers):
		return nil, m.fault(fmt.Errorf("the rule for consumers is %q, must be %q, %q or %q", o.Consumers, RefuseConsumers, AwaitConsumers, IgnoreConsumers))
	case o.Settle < 0:
		return nil, m.fault(fmt.Errorf("the time to settle, %v, must not be negative", o.Settle))
	}
	m.want, m.policies, m.letters = plan.Queues[i], plan.Policies, lettersOf(plan, plan.Queues[i])
	if held, ordered := heldOf(plan, m.want); ordered {
		m.ordered, m.options.KeepOrder = true, true
		m.letters.Queues = append(m.letters.Queues, held)
		if o.Consumers == IgnoreConsumers {
			return nil, m.fault(fmt.Errorf("the rule for consumers is %q: messages that consumers return to the queue lose their order; stop the consumers, or choose %q", IgnoreConsumers, AwaitConsumers))
		}
	}
	return m, nil
}

func (m *migration) fault(err error) error {
	return fmt.Errorf("migrate queue %q: %w", m.want.Name, err)
}

// ended is the error with which a run ends. If ctx has ended, the error of the interrupted call is about a connection, and of no use.
func (m *migration) ended(ctx context.Context, err error) error {
	cause := ctx.Err()
	if cause == nil || !errors.Is(err, cause) {
		return m.fault(err)
	}
	how := "canceled"
	if errors.Is(cause, context.DeadlineExceeded) {
		how = "timed out"
	}
	if m.progress.Step == 0 {
		return m.fault(fmt.Errorf("%s before it had begun: %w", how, cause))
	}
	waiting := ""
	if m.progress.Waiting != "" {
		waiting = ", while it waited for " + m.progress.Waiting
	}
	return m.fault(fmt.Errorf("%s at step %d of %d (%s)%s; run it again to continue: %w", how, m.progress.Step, m.progress.Steps, m.progress.Now, waiting, cause))
}

// value is the migration as users see it.
func (m *migration) value() Migration {
	all := Migration{Queue: m.want.Name, Changes: m.changes, Resumed: m.state.aside || m.state.gate || m.state.back}
	all.Steps = m.steps()
	if len(all.Steps) > 0 {
		all.Warnings = m.warnings()
	}
	return all
}

// steps are the steps that are left, if nobody else changes anything.
func (m *migration) steps() []Step {
	var all []Step
	s := m.state
	for {
		do, b, more := s.next()
		if !more {
			return all
		}
		all = append(all, m.step(do, b))
		s = s.after(do, b)
	}
}

func (m *migration) warnings() []string {
	var all []string
	if ttl, _ := limitOf(m.fresh, "message-ttl"); ttl > 0 {
		all = append(all, fmt.Sprintf("the message TTL of %v starts again for each message", time.Duration(ttl)*time.Millisecond))
	}
	if len(m.state.direct)+len(m.state.diverted) == 0 {
		all = append(all, "no exchange is bound to the queue: publishers that publish to it by its name must pause")
	}
	if m.unread && m.kept.Name == "" {
		all = append(all, fmt.Sprintf("only the broker knows whether a policy removes messages from queue %q: that is checked when the queue exists", layouts.MigratingQueue(m.want.Name)))
	}
	if m.options.KeepOrder && len(m.state.direct)+len(m.state.diverted) > 0 {
		all = append(all, "to keep the order, the broker refuses new messages twice for about a second: publishers must publish them again")
	}
	if m.ordered && !m.state.wanted && m.held.Name == "" {
		all = append(all, "messages that wait for a retry return to the end of the queue when they are due, behind others with their key")
	}
	if !m.state.wanted {
		all = append(all, m.feederWarnings()...)
	}
	if n := m.have.Consumers; n > 0 && !m.state.wanted {
		all = append(all, fmt.Sprintf("the queue has %d consumers", n))
	}
	return all
}

// run does the steps that are left, and refreshes the state until there are none.
func (m *migration) run(ctx context.Context) error {
	for first := true; ; first = false {
		if !first {
			if err := m.refresh(ctx); err != nil {
				return err
			}
		}
		if do, _, _ := m.state.next(); do == "" {
			return nil
		}
		if err := m.consumers(ctx); err != nil {
			return err
		}
		if err := m.runSteps(ctx, m.steps()); err != nil {
			return err
		}
	}
}

// errChanged: the broker has changed, so the next steps must be found again.
var errChanged = errors.New("the broker has changed")

func (m *migration) runSteps(ctx context.Context, steps []Step) error {
	m.progress.Steps = m.progress.Step + len(steps)
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.progress.Step++
		m.progress.Now, m.progress.Left, m.progress.Waiting = step, 0, ""
		m.report()
		err := m.do(ctx, step)
		switch {
		case errors.Is(err, errChanged):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", step, err)
		}
		m.state = m.state.after(step.Action, step.binding)
	}
	return nil
}

func (m *migration) report() {
	if m.options.Progress != nil {
		m.options.Progress(m.progress)
	}
}

// waiting reports what the migration waits for, and waits for a moment.
func (m *migration) waiting(ctx context.Context, forWhat string) error {
	m.progress.Waiting = forWhat
	m.report()
	if err := rabbit.Pause(ctx, pollPause); err != nil {
		return err
	}
	m.progress.Waiting = ""
	return nil
}

// pollPause is the pause before the broker is asked again.
const pollPause = 200 * time.Millisecond
