package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// typing finds the types with which the arguments of bindings were declared.
//
// The management API shows arguments as JSON, which has fewer types than AMQP: RabbitMQ shows a void argument, by which a headers exchange tests only
// whether a header exists, as the string "undefined", and 5 may be any of ten types of number. A binding that is declared again with other types is
// another binding, and matches other messages. But the API also identifies a binding by a hash of its arguments with their types, in properties_key. So
// typing declares bindings of an exchange to which nobody publishes, with each combination of types that the arguments can have, until one has the same
// hash.
type typing struct {
	admin *Admin
	known map[string]topology.Args // by routing key and properties_key
}

func (a *Admin) newTyping() *typing { return &typing{admin: a, known: make(map[string]topology.Args)} }

const (
	tryPrefix = "rehop.try."
	// maxTypings is how many combinations of types are tried for one binding.
	maxTypings = 500
	// maxShown is how often the API is asked for a binding that was just declared.
	maxShown = 10
)

// of returns bindings that were read from the API with the right types of arguments.
func (t *typing) of(ctx context.Context, bindings []topology.Binding) ([]topology.Binding, error) {
	if !slices.ContainsFunc(bindings, func(b topology.Binding) bool { return len(b.Args) > 0 }) {
		return bindings, nil
	}
	var routes []apiRoute
	if err := t.admin.management.get(ctx, "/api/bindings/%s", &routes); err != nil {
		return nil, err
	}
	plain := slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool { return len(b.Args) > 0 })
	routes = slices.DeleteFunc(routes, func(r apiRoute) bool {
		return len(r.Arguments.object) == 0 || !slices.ContainsFunc(bindings, r.binding().Equal)
	})
	typed, err := t.routes(ctx, routes)
	return append(plain, typed...), err
}

// routes returns bindings of the API with the right types of arguments.
func (t *typing) routes(ctx context.Context, routes []apiRoute) ([]topology.Binding, error) {
	if err := t.likely(ctx, routes); err != nil {
		return nil, err
	}
	var typed []topology.Binding
	for _, r := range routes {
		b := r.binding()
		if len(b.Args) > 0 {
			args, known := t.known[r.id()]
			if !known {
				var err error
				if args, err = t.admin.typesOf(ctx, r); err != nil {
					return nil, fmt.Errorf("%s: %w", b.Object(), err)
				}
				t.known[r.id()] = args
			}
			b.Args = args
		}
		if slices.ContainsFunc(typed, b.Equal) {
			return nil, fmt.Errorf("there are two of the %s, whose arguments differ only in the types of numbers: remove one of them", b.Object())
		}
		typed = append(typed, b)
	}
	return typed, nil
}

// likely finds the types of bindings whose arguments have the most likely ones, all at once: there may be thousands.
func (t *typing) likely(ctx context.Context, routes []apiRoute) (err error) {
	first := make(map[string]topology.Args)
	p := t.admin.newTryPlace()
	var plan topology.Plan
	for _, r := range routes {
		if _, known := t.known[r.id()]; known || len(r.Arguments.object) == 0 {
			continue
		}
		for v := range typings(map[string]any(r.Arguments.object)) {
			args, _ := v.(map[string]any)
			first[r.id()] = args
			plan.Bindings = append(plan.Bindings, topology.Binding{Source: p.name, Destination: p.name, Key: r.Key, Args: args})
			break
		}
	}
	if len(first) < 2 {
		return nil
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.clear(ctx)) }()
	if err := p.admin.read.Declare(ctx, plan); err != nil {
		return err
	}
	found, err := p.bindings(ctx)
	for _, r := range found {
		// The same types give the same JSON, and so the same first combination.
		if args, tried := first[r.id()]; tried {
			t.known[r.id()] = args
		}
	}
	return err
}

// typesOf finds the arguments of a binding: those with which the broker gives a binding the same id.
func (a *Admin) typesOf(ctx context.Context, want apiRoute) (args topology.Args, err error) {
	p := a.newTryPlace()
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.clear(ctx)) }()
	for v := range typings(map[string]any(want.Arguments.object)) {
		args, _ := v.(map[string]any)
		same, err := p.bind(ctx, want, args)
		switch {
		case err != nil:
			return nil, err
		case same:
			return args, nil
		case p.bound == maxTypings:
			return nil, errUntyped
		}
	}
	return nil, errUntyped
}

var errUntyped = errors.New("the management API does not show the types of its arguments, and they could not be found by trying: remove the binding, and add it again afterwards")

// tryPlace is an exchange to which nobody publishes, and a queue that is bound to it. The broker deletes both with the connection.
type tryPlace struct {
	admin *Admin
	name  string // of both
	bound int    // number of bindings
}

func (a *Admin) newTryPlace() *tryPlace { return &tryPlace{admin: a, name: tryPrefix + rabbit.NewID()} }

func (p *tryPlace) open(ctx context.Context) error {
	return p.admin.read.Declare(ctx, topology.Plan{
		Exchanges: []topology.Exchange{{Name: p.name, Kind: "headers", AutoDelete: true}},
		Queues:    []topology.Queue{{Name: p.name, Exclusive: true}},
	})
}

// clear deletes the queue. The broker deletes the exchange with its last binding; clear deletes one that never had any.
func (p *tryPlace) clear(ctx context.Context) error {
	longer, end := rabbit.Grace(ctx, unlockLimit)
	defer end()
	_, err := p.admin.read.DeleteQueue(longer, p.name, false)
	return errors.Join(err, p.admin.read.DeleteExchange(longer, p.name))
}

// bind declares a binding, and reports whether the broker gives it the same id as want.
func (p *tryPlace) bind(ctx context.Context, want apiRoute, args topology.Args) (bool, error) {
	b := topology.Binding{Source: p.name, Destination: p.name, Key: want.Key, Args: args}
	if err := p.admin.read.Declare(ctx, topology.Plan{Bindings: []topology.Binding{b}}); err != nil {
		return false, err
	}
	p.bound++
	for looks := 1; ; looks++ {
		found, err := p.bindings(ctx)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(found, func(r apiRoute) bool { return r.id() == want.id() }) {
			return true, nil
		}
		// Another node of a cluster may show it late. A broker that does not distinguish two types never shows more.
		if len(found) >= p.bound || looks == maxShown {
			return false, nil
		}
		if err := rabbit.Pause(ctx, pollPause); err != nil {
			return false, err
		}
	}
}

// bindings returns the bindings of the place that the API shows.
func (p *tryPlace) bindings(ctx context.Context) (found []apiRoute, err error) {
	err = p.admin.management.get(ctx, "/api/bindings/%s/e/%s/q/%s", &found, p.name, p.name)
	return found, err
}
