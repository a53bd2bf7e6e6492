package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// migrationState is how far a migration is. All of it except keepOrder and the last three fields can be seen on the broker, so a migration that was
// killed continues where it was.
//
// Messages reach a queue by bindings. While the queue is replaced, each binding leads to an exchange of rehop's, the gate. The gate routes either to
// the queue or, through its alternate exchange, to the queue that keeps messages: always to one of them, never to both. On the way there and back, a
// binding and its counterpart at the gate exist at the same time for a while. Both lead to the same queue, which then gets each message once.
type migrationState struct {
	there  bool // the queue exists
	wanted bool // and it is as planned

	aside bool // the queue that keeps messages exists, with its exchange
	gate  bool // the exchange exists that routes to one of the two queues
	open  bool // the gate routes to the queue
	back  bool // the exchange exists that routes only to the queue

	direct   []topology.Binding // of exchanges to the queue
	diverted []topology.Binding // of exchanges to the gate, as bindings to the queue

	refusing bool // the broker refuses messages for a moment

	astray bool // something is missing of where the planned queue dead-letters to, or its held queue
	leaves bool // the queue has a held queue, and is to be handled in order by key no more

	keepOrder bool

	// What was done in this run.
	carried  bool // messages of the queue were moved, while it still received others
	emptied  bool // the queue is empty
	returned bool // the queue that keeps messages is empty
}

// stateOf finds how far the migration of a queue is.
func stateOf(live topology.Live, want topology.Queue, changes topology.Diff) migrationState {
	gate, aside, back := layouts.MigratingQueue(want.Name), layouts.AsideExchange(want.Name), layouts.BackExchange(want.Name)
	var s migrationState
	_, s.there = live.Queue(want.Name)
	s.wanted = s.there && len(changes) == 0
	_, kept := live.Queue(gate)
	_, asideThere := live.Exchange(aside)
	_, s.gate = live.Exchange(gate)
	for _, b := range live.Bindings {
		switch {
		case b.ToExchange && b.Destination == gate:
			b.Destination, b.ToExchange = want.Name, false
			s.diverted = append(s.diverted, b)
		case b.ToExchange:
		case b.Source == aside && b.Destination == gate:
			s.aside = kept && asideThere
		case b.Source == layouts.PauseQueue(want.Name):
			s.refusing = true
		case b.Destination != want.Name:
		case b.Source == gate:
			s.open = true
		case b.Source == back:
			s.back = true
		default:
			s.direct = append(s.direct, b)
		}
	}
	if s.there && s.wanted && kept {
		s.aside = true // it has only to be emptied and deleted
	}
	return s
}

// next is the next action, and its binding; false: there is none.
func (s migrationState) next() (Action, topology.Binding, bool) {
	none := topology.Binding{}
	switch {
	case s.wanted:
		return s.nextBack()
	case s.leaves && s.there:
		return ActionDeleteHeld, none, true
	case s.astray:
		return ActionDeadLetters, none, true
	case !s.there:
		return ActionDeclare, none, true
	case !s.aside || !s.gate || !s.open && len(s.diverted) == 0:
		return ActionPrepare, none, true
	}
	if b, some := without(s.direct, s.diverted); some {
		return ActionDivert, b, true
	}
	switch {
	case len(s.direct) > 0:
		return ActionUnbind, s.direct[0], true
	case s.open && !s.carried:
		return ActionMove, none, true
	case s.open && len(s.diverted) > 0:
		return ActionClose, none, true
	case !s.emptied:
		return ActionEmpty, none, true
	}
	return ActionDelete, none, true
}

// nextBack is the next action when the queue is as planned.
func (s migrationState) nextBack() (Action, topology.Binding, bool) {
	none := topology.Binding{}
	closed := !s.open && len(s.diverted) > 0
	ahead := closed && s.aside && s.keepOrder && !s.carried
	switch {
	case closed && !ahead:
		// At once: a subscriber that finds the queue binds it, and messages would then reach both queues.
		return ActionOpen, none, true
	case s.aside && !s.back:
		return ActionPrepareReturn, none, true
	case ahead:
		return ActionReturnEarly, none, true
	}
	if b, some := without(s.diverted, s.direct); some {
		return ActionRestore, b, true
	}
	switch {
	case len(s.diverted) > 0:
		return ActionUndivert, s.diverted[0], true
	case s.aside && !s.returned:
		return ActionReturn, none, true
	case s.aside || s.gate || s.back:
		return ActionClear, none, true
	}
	return "", none, false
}

// without finds a binding that has no counterpart.
func without(some, counterparts []topology.Binding) (topology.Binding, bool) {
	for _, b := range some {
		if !slices.ContainsFunc(counterparts, b.Equal) {
			return b, true
		}
	}
	return topology.Binding{}, false
}

// after is the state after an action, if nobody else has changed anything.
func (s migrationState) after(do Action, b topology.Binding) migrationState {
	s.direct, s.diverted = slices.Clone(s.direct), slices.Clone(s.diverted)
	switch do {
	case ActionDeadLetters:
		s.astray = false
	case ActionDeleteHeld:
		s.leaves = false
	case ActionPrepare:
		s.aside, s.gate = true, true
		s.open = s.open || len(s.diverted) == 0
	case ActionDivert:
		s.diverted = append(s.diverted, b)
	case ActionUnbind:
		s.direct = slices.DeleteFunc(s.direct, b.Equal)
	case ActionMove, ActionReturnEarly:
		s.carried = true
	case ActionClose:
		s.open = false
	case ActionEmpty:
		s.emptied, s.refusing = true, false
	case ActionDelete:
		// The broker removes its bindings with it.
		s.there, s.open, s.back, s.direct = false, false, false, nil
	case ActionDeclare:
		s.there, s.wanted, s.carried = true, true, false
	case ActionPrepareReturn:
		s.back = true
	case ActionOpen:
		s.open = true
	case ActionRestore:
		s.direct = append(s.direct, b)
	case ActionUndivert:
		s.diverted = slices.DeleteFunc(s.diverted, b.Equal)
	case ActionReturn:
		s.returned = true
	case ActionClear:
		s.aside, s.gate, s.back, s.open = false, false, false, false
	}
	return s
}

// Action is what a step of a migration does.
type Action string

// The actions, in the order in which a migration does them.
const (
	ActionDeadLetters   Action = "dead-letters"   // declares what is missing of where the planned queue dead-letters to, such as its failed queue
	ActionDeleteHeld    Action = "delete-held"    // deletes the held queue of a queue that is to be handled in order by key no more
	ActionPrepare       Action = "prepare"        // declares the queue that keeps messages, and the exchanges that route to it
	ActionDivert        Action = "divert"         // adds a binding to rehop's exchange for a binding to the queue
	ActionUnbind        Action = "unbind"         // removes the binding to the queue
	ActionMove          Action = "move"           // moves the messages of the queue to the queue that keeps them, while the queue still receives others
	ActionClose         Action = "close"          // switches rehop's exchange to the queue that keeps messages
	ActionEmpty         Action = "empty"          // moves the remaining messages, until none has arrived for a while
	ActionDelete        Action = "delete"         // deletes the queue
	ActionDeclare       Action = "declare"        // declares the queue as planned
	ActionPrepareReturn Action = "prepare-return" // declares the exchange through which messages return to the queue
	ActionReturnEarly   Action = "return-early"   // returns messages before the queue receives new ones, so that they stay in order
	ActionOpen          Action = "open"           // switches rehop's exchange to the queue
	ActionRestore       Action = "restore"        // adds a binding to the queue again
	ActionUndivert      Action = "undivert"       // removes the binding to rehop's exchange
	ActionReturn        Action = "return"         // returns the remaining messages, until none has arrived for a while
	ActionClear         Action = "clear"          // deletes what was declared for the migration
)

// Step is one step of a migration. A migration can be interrupted at any step, and run again.
type Step struct {
	Action Action `json:"action"`
	Text   string `json:"text"` // what it does

	binding topology.Binding // for actions on a binding
}

// String is what the step does.
func (s Step) String() string { return s.Text }

// objectsOf names the exchanges and queues of a plan, or its bindings if there is nothing else.
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

// step is an action on the queue of this migration.
func (m *migration) step(do Action, b topology.Binding) Step {
	q, keeping := m.want.Name, layouts.MigratingQueue(m.want.Name)
	diverted := b
	diverted.Destination, diverted.ToExchange = keeping, true
	closing, opening := "", ""
	if m.options.KeepOrder {
		closing = fmt.Sprintf(", and meanwhile refuse new messages until those of queue %q are moved", q)
		opening = fmt.Sprintf(", and meanwhile refuse new messages until those of queue %q are moved back", keeping)
	}
	text := map[Action]string{
		ActionDeadLetters:   fmt.Sprintf("declare what is missing for queue %q: %s", q, objectsOf(m.missing)),
		ActionDeleteHeld:    fmt.Sprintf("delete queue %q, if no message waits there", m.held.Name),
		ActionPrepare:       fmt.Sprintf("declare queue %q, which keeps messages, and exchange %q, which routes to queue %q", keeping, keeping, q),
		ActionDivert:        fmt.Sprintf("add the %s", diverted.Object()),
		ActionUnbind:        fmt.Sprintf("remove the %s", b.Object()),
		ActionMove:          fmt.Sprintf("move the messages of queue %q to queue %q", q, keeping),
		ActionClose:         fmt.Sprintf("switch exchange %q to queue %q instead of %q%s", keeping, keeping, q, closing),
		ActionEmpty:         fmt.Sprintf("move the remaining messages of queue %q to queue %q, until none has arrived for %v and none is unacked", q, keeping, m.options.Settle),
		ActionDelete:        fmt.Sprintf("delete queue %q", q),
		ActionDeclare:       fmt.Sprintf("declare queue %q with %s", q, arguments(m.want.Args)),
		ActionPrepareReturn: fmt.Sprintf("declare exchange %q, which routes to queue %q", layouts.BackExchange(q), q),
		ActionReturnEarly:   fmt.Sprintf("move the messages of queue %q back to queue %q, while it still receives others", keeping, q),
		ActionOpen:          fmt.Sprintf("switch exchange %q to queue %q again%s", keeping, q, opening),
		ActionRestore:       fmt.Sprintf("add the %s", b.Object()),
		ActionUndivert:      fmt.Sprintf("remove the %s", diverted.Object()),
		ActionReturn:        fmt.Sprintf("move the messages of queue %q back to queue %q", keeping, q),
		ActionClear:         fmt.Sprintf("delete queue %q and the exchanges of the migration", keeping),
	}[do]
	return Step{Action: do, Text: text, binding: b}
}
