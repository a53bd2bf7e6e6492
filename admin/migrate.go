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

// Migration is what it takes to give a queue other arguments. RabbitMQ cannot change those of a queue that
// exists: it has to be deleted and declared again, and meanwhile its messages are kept in another one.
type Migration struct {
	Queue string `json:"queue"`
	// Changes is in what the queue differs from the plan.
	Changes topology.Diff `json:"changes"`
	// Steps are what is to be done. None: the queue is as planned, and nothing is left of a migration.
	Steps []Step `json:"steps"`
	// Resumed: an earlier run has done a part of it.
	Resumed bool `json:"resumed"`
	// Warnings are what may surprise.
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
	if s.Len() == 0 {
		return "nothing to do\n"
	}
	return s.String()
}

// MigrateOptions say how to migrate a queue.
type MigrateOptions struct {
	// Consumers says what to do while the queue has consumers. Default: refuse.
	Consumers ConsumerRule
	// KeepOrder has messages that are published meanwhile wait until those before them are back in the queue.
	// Rehop's subscribers wait until the end; others must not start before it: once they have bound the queue, what is
	// published comes to it twice. Default: the queue receives again as soon as it exists, and what it held before
	// comes later.
	KeepOrder bool
	// Settle is for how long nothing may have come to the queue before it is deleted: choose more where messages come seldom by the
	// queue's name. However short it is, the queue is deleted only when statistics of the broker that are newer than its last message say that no
	// consumer holds one; RabbitMQ takes up to about 15 s for that. Default: 12 s.
	Settle time.Duration
	// Progress is called at each step, and while messages are moved.
	Progress func(MigrationProgress)
}

// ConsumerRule says what a migration does while the queue has consumers.
type ConsumerRule string

const (
	// RefuseConsumers ends the migration with ErrConsumers before it has begun.
	RefuseConsumers ConsumerRule = "refuse"
	// AwaitConsumers waits until there are none.
	AwaitConsumers ConsumerRule = "wait"
	// IgnoreConsumers goes on. They share in emptying the queue, which is deleted when they hold no message;
	// the broker cancels them then. One that declares the queue as it was, in that moment, is in the way.
	IgnoreConsumers ConsumerRule = "ignore"
)

// MigrationProgress tells how far a migration is.
type MigrationProgress struct {
	Step    int    // which one is being done, from 1, of those of this run
	Steps   int    // how many there are
	Now     Step   // it
	Moved   int    // messages that this run has moved, there and back
	Left    int    // messages still to be moved by this step, as far as the broker could tell
	Waiting string // for what, if anything
}

// ErrConsumers: the queue has consumers, and a migration would delete it under them.
var ErrConsumers = errors.New("the queue has consumers")

const defaultSettle = 12 * time.Second

// PlanMigration looks at the broker, and says what Migrate would do there. It changes nothing, except that it declares and deletes a queue
// rehop.try.… to try the new arguments. It needs the management API.
func (a *Admin) PlanMigration(ctx context.Context, plan topology.Plan, queue string, o MigrateOptions) (Migration, error) {
	m, err := a.newMigration(plan, queue, o)
	if err != nil {
		return Migration{}, err
	}
	if err := m.look(ctx); err != nil {
		return Migration{}, m.fault(err)
	}
	return m.told(), nil
}

// Migrate gives a queue the arguments that the plan says, under the same name, and loses no message. It needs the
// management API.
//
// Exchanges go on taking messages all the time. While the queue is replaced, its messages are kept in
// the queue rehop.moving.<queue>; each is moved there and back by a copy that the broker confirms before the
// original is removed, with its properties, headers and routing key. Publishers that publish to the queue by its name,
// through the default exchange, must pause: the queue is not deleted before nothing has come for
// MigrateOptions.Settle.
//
// It is refused while a policy would take messages from the queue that keeps them or from the new one, and while policies
// of the plan that are for the queue are not set: Apply sets them.
//
// When ctx ends or the process dies, the broker knows how far it was: Migrate goes on from there. Up to 256
// messages that were under way each time a process died are then in the queue twice. Run with the plan of
// the queue as it was, it goes back.
func (a *Admin) Migrate(ctx context.Context, plan topology.Plan, queue string, o MigrateOptions) (Migration, error) {
	m, err := a.newMigration(plan, queue, o)
	if err != nil {
		return Migration{}, err
	}
	if err := m.lock(ctx); err != nil {
		return Migration{}, m.ended(ctx, err)
	}
	defer m.unlock()
	if err := m.look(ctx); err != nil {
		return Migration{}, m.ended(ctx, err)
	}
	all := m.told()
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
	letters  topology.Plan     // where dead letters of the queue as planned rest
	options  MigrateOptions

	have     topology.LiveQueue // the queue as it was when it was last looked at
	kept     topology.LiveQueue // the one in which messages are kept
	fresh    topology.LiveQueue // the queue as it will be, with what policies make of it
	changes  topology.Diff
	missing  topology.Plan // of letters, what is not on the broker
	state    migrationState
	consumed bool                 // subscriptions consume the queue; otherwise messages rest there
	movers   []topology.LiveQueue // queues with consumers that publish to this one by its name
	feeders  []feeder             // queues that dead-letter to this one by its name
	instant  bool                 // the broker's statistics are never late
	tried    bool                 // the broker has accepted a queue with the wanted arguments
	typing   *typing              // of bindings
	unread   bool                 // which policies will apply to the one that keeps messages only the broker can tell

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
		return nil, m.fault(errors.New("in the plan it belongs to somebody else"))
	case plan.Queues[i].Temporary():
		return nil, m.fault(errors.New("in the plan it comes and goes with its consumers: stop those, and it is declared as planned"))
	case plan.Queues[i].Args["x-queue-type"] == "stream":
		return nil, m.fault(errors.New("a stream keeps what was consumed, so there is no moving it"))
	case !slices.Contains([]ConsumerRule{RefuseConsumers, AwaitConsumers, IgnoreConsumers}, o.Consumers):
		return nil, m.fault(fmt.Errorf("option Consumers is %q, must be %q, %q or %q", o.Consumers, RefuseConsumers, AwaitConsumers, IgnoreConsumers))
	case o.Settle < 0:
		return nil, m.fault(fmt.Errorf("option Settle %v must not be negative", o.Settle))
	}
	m.want, m.policies, m.letters = plan.Queues[i], plan.Policies, lettersOf(plan, plan.Queues[i])
	return m, nil
}

func (m *migration) fault(err error) error {
	return fmt.Errorf("migrate queue %q: %w", m.want.Name, err)
}

// ended is why a run has ended. When ctx has, what was under way says something of a connection that did not answer, which is
// nobody's concern.
func (m *migration) ended(ctx context.Context, err error) error {
	cause := ctx.Err()
	if cause == nil || !errors.Is(err, cause) {
		return m.fault(err)
	}
	how := "canceled"
	if errors.Is(cause, context.DeadlineExceeded) {
		how = "its time was up"
	}
	if m.progress.Step == 0 {
		return m.fault(fmt.Errorf("%s before it had begun: %w", how, cause))
	}
	waiting := ""
	if m.progress.Waiting != "" {
		waiting = ", while it waited for " + m.progress.Waiting
	}
	return m.fault(fmt.Errorf("%s at step %d of %d (%s)%s; run it again, and it goes on: %w", how, m.progress.Step, m.progress.Steps, m.progress.Now, waiting, cause))
}

// told is the migration as a value.
func (m *migration) told() Migration {
	all := Migration{Queue: m.want.Name, Changes: m.changes, Resumed: m.state.aside || m.state.gate || m.state.back}
	all.Steps = m.steps()
	if len(all.Steps) > 0 {
		all.Warnings = m.warnings()
	}
	return all
}

// steps are what is left to do if nobody else changes anything.
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
		all = append(all, fmt.Sprintf("the time to live of %v begins anew for each message", time.Duration(ttl)*time.Millisecond))
	}
	if len(m.state.direct)+len(m.state.diverted) == 0 {
		all = append(all, "no exchange is bound to the queue: publishers that publish to it by its name must pause")
	}
	if m.unread && m.kept.Name == "" {
		all = append(all, fmt.Sprintf("only the broker can tell whether a policy takes messages from queue %q: it is asked when that is there", layouts.MovingQueue(m.want.Name)))
	}
	if !m.state.wanted {
		all = append(all, m.feederWarnings()...)
	}
	if n := m.have.Consumers; n > 0 && !m.state.wanted {
		all = append(all, fmt.Sprintf("the queue has %d consumers", n))
	}
	return all
}

// run does what is left to do, and looks at the broker again until that is nothing.
func (m *migration) run(ctx context.Context) error {
	for first := true; ; first = false {
		if !first {
			if err := m.look(ctx); err != nil {
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

// errLook: what is to be done next depends on what is on the broker now.
var errLook = errors.New("look again")

func (m *migration) runSteps(ctx context.Context, steps []Step) error {
	m.progress.Steps = m.progress.Step + len(steps)
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.progress.Step++
		m.progress.Now, m.progress.Left, m.progress.Waiting = step, 0, ""
		m.tell()
		err := m.do(ctx, step)
		switch {
		case errors.Is(err, errLook):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", step, err)
		}
		m.state = m.state.after(step.Action, step.binding)
	}
	return nil
}

func (m *migration) tell() {
	if m.options.Progress != nil {
		m.options.Progress(m.progress)
	}
}

// waiting says for what the migration waits, and waits a little.
func (m *migration) waiting(ctx context.Context, forWhat string) error {
	m.progress.Waiting = forWhat
	m.tell()
	if err := rabbit.Pause(ctx, lookAgain); err != nil {
		return err
	}
	m.progress.Waiting = ""
	return nil
}

// lookAgain is the pause between looks at what others have to do.
const lookAgain = 200 * time.Millisecond
