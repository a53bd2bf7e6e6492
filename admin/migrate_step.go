package admin

import (
	"fmt"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// Action is what a step of a migration does.
type Action string

// The actions, in the order in which a migration takes them.
const (
	// ActionLetters declares what is missing of where dead letters of the queue as planned come to rest: its failed queue.
	ActionLetters Action = "letters"
	// ActionPrepare declares the queue in which messages are kept meanwhile, and the exchanges that lead there.
	ActionPrepare Action = "prepare"
	// ActionDivert leads what comes by a binding to the queue by way of rehop's exchange, too.
	ActionDivert Action = "divert"
	// ActionRelease removes the binding itself.
	ActionRelease Action = "release"
	// ActionCarry takes what is in the queue to where messages are kept, while the queue still receives.
	ActionCarry Action = "carry"
	// ActionClose leads what is published from now on to where messages are kept, in one stroke.
	ActionClose Action = "close"
	// ActionEmpty takes the rest there, until nothing has come for a while.
	ActionEmpty Action = "empty"
	// ActionDelete deletes the queue.
	ActionDelete Action = "delete"
	// ActionDeclare declares it as planned.
	ActionDeclare Action = "declare"
	// ActionLead prepares the way back.
	ActionLead Action = "lead"
	// ActionAhead takes messages back while new ones still come to where they are kept, so that those stay behind.
	ActionAhead Action = "ahead"
	// ActionOpen leads what is published from now on to the queue, in one stroke.
	ActionOpen Action = "open"
	// ActionRestore declares a binding again.
	ActionRestore Action = "restore"
	// ActionWithdraw removes the binding to rehop's exchange.
	ActionWithdraw Action = "withdraw"
	// ActionReturn takes back what was kept, until nothing has come for a while.
	ActionReturn Action = "return"
	// ActionClear deletes what was only there for the migration.
	ActionClear Action = "clear"
)

// Step is one step of a migration. Between any two of them a migration can be ended, and run again.
type Step struct {
	Action Action `json:"action"`
	Text   string `json:"text"` // what it does, in words

	binding topology.Binding // of those that are about a binding
}

// String is the step in words.
func (s Step) String() string { return s.Text }

// objectsOf names the exchanges and queues of a plan, and its bindings if there is nothing else.
func objectsOf(plan topology.Plan) string {
	var all []string
	for _, x := range plan.Exchanges {
		all = append(all, x.Object().String())
	}
	for _, q := range plan.Queues {
		all = append(all, q.Object().String())
	}
	if len(all) == 0 {
		for _, b := range plan.Bindings {
			all = append(all, b.Object().String())
		}
	}
	return strings.Join(all, ", ")
}

// step makes a step of a queue's migration.
func (m *migration) step(do Action, b topology.Binding) Step {
	q, moving := m.want.Name, layouts.MovingQueue(m.want.Name)
	diverted := b
	diverted.Destination, diverted.ToExchange = moving, true
	text := map[Action]string{
		ActionLetters:  fmt.Sprintf("declare what is missing for dead letters of queue %q: %s", q, objectsOf(m.missing)),
		ActionPrepare:  fmt.Sprintf("declare queue %q to keep messages in, and exchange %q, which leads to queue %q", moving, moving, q),
		ActionDivert:   fmt.Sprintf("add the %s", diverted.Object()),
		ActionRelease:  fmt.Sprintf("remove the %s", b.Object()),
		ActionCarry:    fmt.Sprintf("move what is in queue %q to queue %q", q, moving),
		ActionClose:    fmt.Sprintf("lead exchange %q to queue %q instead of %q", moving, moving, q),
		ActionEmpty:    fmt.Sprintf("move the rest of queue %q to queue %q, until nothing has come for %v and nobody holds a message", q, moving, m.options.Settle),
		ActionDelete:   fmt.Sprintf("delete queue %q", q),
		ActionDeclare:  fmt.Sprintf("declare queue %q with %s", q, arguments(m.want.Args)),
		ActionLead:     fmt.Sprintf("declare exchange %q, which leads to queue %q", layouts.BackExchange(q), q),
		ActionAhead:    fmt.Sprintf("move what is in queue %q back to queue %q, while it still receives", moving, q),
		ActionOpen:     fmt.Sprintf("lead exchange %q to queue %q again", moving, q),
		ActionRestore:  fmt.Sprintf("add the %s", b.Object()),
		ActionWithdraw: fmt.Sprintf("remove the %s", diverted.Object()),
		ActionReturn:   fmt.Sprintf("move what is in queue %q back to queue %q", moving, q),
		ActionClear:    fmt.Sprintf("delete queue %q and the exchanges that led there", moving),
	}[do]
	return Step{Action: do, Text: text, binding: b}
}
