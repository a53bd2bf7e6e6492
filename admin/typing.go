package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

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
		Exchanges: []topology.Exchange{{Name: p.name, Type: "headers", AutoDelete: true}},
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
	for requests := 1; ; requests++ {
		found, err := p.bindings(ctx)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(found, func(r apiRoute) bool { return r.id() == want.id() }) {
			return true, nil
		}
		// Another node of a cluster may show it late. A broker that does not distinguish two types never shows more.
		if len(found) >= p.bound || requests == maxShown {
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

// typings are the AMQP values that the API may show as v, the likely ones first. Most programs give all their numbers the same type, and all their texts:
// these combinations come first. Then come mixed ones: all of the two likeliest types of each value, all of three, and so on.
func typings(v any) iter.Seq[any] {
	return func(yield func(any) bool) {
		var f form
		build := f.add(v, true)
		tried := make(map[string]bool)
		for _, picks := range []iter.Seq[[]int]{f.uniform(), f.mixed()} {
			for pick := range picks {
				if id := fmt.Sprint(pick); !tried[id] {
					tried[id] = true
					if !yield(build(pick)) {
						return
					}
				}
			}
		}
	}
}

// form is what JSON leaves open about a value: the possible AMQP values of each number and each text in it.
type form []open

type open struct {
	kind   kind
	values []any // the likely ones first
}

type kind int

const (
	whole kind = iota
	fraction
	text
	undefined
	kinds
)

// add adds what is open about a value, which is all arguments or a part of them. The result builds a value from choices.
func (f *form) add(v any, all bool) func(pick []int) any {
	choose := func(kind kind, values ...any) func([]int) any {
		i := len(*f)
		*f = append(*f, open{kind, values})
		return func(pick []int) any { return values[pick[i]] }
	}
	switch v := v.(type) {
	case json.Number:
		values := numbers(v)
		if _, real := values[0].(float64); real {
			return choose(fraction, values...)
		}
		return choose(whole, values...)
	case string:
		if v == "undefined" {
			return choose(undefined, nil, v, []byte(v))
		}
		return choose(text, v, []byte(v))
	case []any:
		items := make([]func([]int) any, len(v))
		for i, item := range v {
			items[i] = f.add(item, false)
		}
		return func(pick []int) any {
			list := make([]any, len(items))
			for i, item := range items {
				list[i] = item(pick)
			}
			return list
		}
	case map[string]any:
		fields := make(map[string]func([]int) any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if match, ok := v[key].(string); ok && all && key == "x-match" { // a broker refuses other types
				fields[key] = func([]int) any { return match }
				continue
			}
			fields[key] = f.add(v[key], false)
		}
		return func(pick []int) any {
			table := make(map[string]any, len(fields))
			for key, field := range fields {
				table[key] = field(pick)
			}
			return table
		}
	default:
		return func([]int) any { return v }
	}
}

// uniform are the choices in which all values of a kind have the same type, except those that cannot have it. Some may come twice.
func (f form) uniform() iter.Seq[[]int] {
	var types [kinds][]reflect.Type
	for _, o := range f {
		for _, v := range o.values {
			if typ := reflect.TypeOf(v); !slices.Contains(types[o.kind], typ) {
				types[o.kind] = append(types[o.kind], typ)
			}
		}
	}
	var sizes [kinds]int
	for k := range types {
		sizes[k] = max(1, len(types[k]))
	}
	return func(yield func([]int) bool) {
		for chosen := range counts(sizes[:]) {
			pick := make([]int, len(f))
			for i, o := range f {
				typ := types[o.kind][chosen[o.kind]]
				pick[i] = max(0, slices.IndexFunc(o.values, func(v any) bool { return reflect.TypeOf(v) == typ }))
			}
			if !yield(pick) {
				return
			}
		}
	}
}

// mixed are all choices, those first in which every value has one of its likeliest types.
func (f form) mixed() iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for least := 1; ; least++ {
			sizes := make([]int, len(f))
			more := false
			for i, o := range f {
				sizes[i] = min(least, len(o.values))
				more = more || len(o.values) >= least
			}
			if !more {
				return
			}
			for pick := range counts(sizes) {
				// The others came before.
				if slices.Contains(pick, least-1) && !yield(pick) {
					return
				}
			}
		}
	}
}

// counts are all lists of numbers from 0 up to the sizes. The first number changes fastest.
func counts(sizes []int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		at := make([]int, len(sizes))
		for yield(slices.Clone(at)) {
			i := 0
			for ; i < len(at); i++ {
				if at[i]++; at[i] < sizes[i] {
					break
				}
				at[i] = 0
			}
			if i == len(at) {
				return
			}
		}
	}
}

// numbers are the AMQP values that are shown as n.
func numbers(n json.Number) (all []any) {
	f, err := n.Float64()
	if err != nil {
		return []any{n.String()}
	}
	i, err := n.Int64()
	if err != nil {
		all = []any{f, float32(f)}
		if f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return all
		}
		i = int64(f) // as in 5.0
	}
	whole := []any{i}
	for _, w := range []struct {
		low, high int64
		value     any
	}{
		{math.MinInt32, math.MaxInt32, int32(i)}, {math.MinInt16, math.MaxInt16, int16(i)}, {math.MinInt8, math.MaxInt8, int8(i)},
		{0, math.MaxUint8, uint8(i)}, {0, math.MaxUint16, uint16(i)}, {0, math.MaxUint32, uint32(i)}, {0, math.MaxInt64, time.Unix(i, 0)},
	} {
		if i >= w.low && i <= w.high {
			whole = append(whole, w.value)
		}
	}
	if len(all) > 0 {
		return append(all, whole...)
	}
	return append(whole, f, float32(f))
}
