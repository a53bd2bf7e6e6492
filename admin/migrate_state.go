package admin

import (
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// migrationState is how far a migration is. All of it but the last three can be seen on the broker, so a
// migration that was killed goes on where it was.
//
// Messages come to a queue by bindings. While it is replaced, each binding leads to an exchange of rehop's, the
// gate, and that either to the queue or, by its alternate exchange, to where messages are kept: never to
// neither, never to both. On the way there and back a binding and its counterpart at the gate exist side by
// side for a while, and both lead to the same queue, which then gets each message once.
type migrationState struct {
	there  bool // the queue exists
	wanted bool // and it is as planned

	aside bool // the queue in which messages are kept, and the exchange that leads there
	gate  bool // the exchange that leads either to the queue or there
	open  bool // to the queue
	back  bool // the exchange that leads to the queue alone

	direct   []topology.Binding // of exchanges to the queue
	diverted []topology.Binding // of exchanges to the gate, written as bindings to the queue

	astray bool // dead letters of the queue as planned would not find their failed queue

	keepOrder bool

	// What has been done in this run.
	carried  bool // what was in the queue has been moved, while it still received
	emptied  bool // nothing is left in the queue
	returned bool // nothing is left where messages are kept
}

// stateOf finds how far the migration of a queue is.
func stateOf(live topology.Live, want topology.Queue, changes topology.Diff) migrationState {
	gate, aside, back := layouts.MovingQueue(want.Name), layouts.AsideExchange(want.Name), layouts.BackExchange(want.Name)
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
		s.aside = true // all that is left to do is to empty and to delete it
	}
	return s
}

// next is what is to be done; false: nothing.
func (s migrationState) next() (Action, topology.Binding, bool) {
	none := topology.Binding{}
	switch {
	case s.wanted:
		return s.nextBack()
	case s.astray:
		return ActionLetters, none, true
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
		return ActionRelease, s.direct[0], true
	case s.open && !s.carried:
		return ActionCarry, none, true
	case s.open && len(s.diverted) > 0:
		return ActionClose, none, true
	case !s.emptied:
		return ActionEmpty, none, true
	}
	return ActionDelete, none, true
}

// nextBack is what is to be done once the queue is as planned.
func (s migrationState) nextBack() (Action, topology.Binding, bool) {
	none := topology.Binding{}
	closed := !s.open && len(s.diverted) > 0
	ahead := closed && s.aside && s.keepOrder && !s.carried
	switch {
	case closed && !ahead:
		// At once: a subscriber that finds the queue binds it, and its messages would then come to both.
		return ActionOpen, none, true
	case s.aside && !s.back:
		return ActionLead, none, true
	case ahead:
		return ActionAhead, none, true
	}
	if b, some := without(s.diverted, s.direct); some {
		return ActionRestore, b, true
	}
	switch {
	case len(s.diverted) > 0:
		return ActionWithdraw, s.diverted[0], true
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

// after is the state when a step has been done and nobody else has changed anything.
func (s migrationState) after(do Action, b topology.Binding) migrationState {
	s.direct, s.diverted = slices.Clone(s.direct), slices.Clone(s.diverted)
	switch do {
	case ActionLetters:
		s.astray = false
	case ActionPrepare:
		s.aside, s.gate = true, true
		s.open = s.open || len(s.diverted) == 0
	case ActionDivert:
		s.diverted = append(s.diverted, b)
	case ActionRelease:
		s.direct = slices.DeleteFunc(s.direct, b.Equal)
	case ActionCarry, ActionAhead:
		s.carried = true
	case ActionClose:
		s.open = false
	case ActionEmpty:
		s.emptied = true
	case ActionDelete:
		// The broker removes its bindings with it.
		s.there, s.open, s.back, s.direct = false, false, false, nil
	case ActionDeclare:
		s.there, s.wanted, s.carried = true, true, false
	case ActionLead:
		s.back = true
	case ActionOpen:
		s.open = true
	case ActionRestore:
		s.direct = append(s.direct, b)
	case ActionWithdraw:
		s.diverted = slices.DeleteFunc(s.diverted, b.Equal)
	case ActionReturn:
		s.returned = true
	case ActionClear:
		s.aside, s.gate, s.back, s.open = false, false, false, false
	}
	return s
}
