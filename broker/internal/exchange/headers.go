package exchange

import (
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// headers compares a message with every binding.
type headers[D comparable] struct {
	destinations *destinations[D]
	exact        bool // see NewExact
}

func (headers[D]) add(b *binding[D]) (err error) {
	b.pattern, err = compile(b.args)
	return err
}

func (headers[D]) remove(*binding[D]) {}

func (h headers[D]) match(_ string, read func() wire.Table, visit func(D)) {
	if len(h.destinations.all) == 0 {
		return
	}
	message := newLookup(read())
	for _, to := range h.destinations.all {
		if slices.ContainsFunc(to.bindings, func(b *binding[D]) bool { return b.pattern.match(message, h.exact) }) {
			visit(to.name)
		}
	}
}

// pattern is what the arguments of a binding require of the headers of a message.
type pattern struct {
	any    bool // one field is enough
	fields []field
}

// field is one required header.
type field struct {
	key   string
	nth   int // among the fields with this key, which RabbitMQ compares with those of the message in order
	value any // nil: any value
}

// compile needs arguments that are sorted by key.
func compile(args wire.Table) (pattern, error) {
	how, err := howToMatch(args)
	if err != nil {
		return pattern{}, err
	}
	quantity, withX := strings.CutSuffix(how, "-with-x")
	p := pattern{any: quantity == "any"}
	for _, arg := range args {
		if arg.Key == "x-match" || !withX && strings.HasPrefix(arg.Key, "x-") {
			continue
		}
		f := field{key: arg.Key, value: arg.Value}
		if n := len(p.fields); n > 0 && p.fields[n-1].key == f.key {
			f.nth = p.fields[n-1].nth + 1
		}
		p.fields = append(p.fields, f)
	}
	return p, nil
}

func howToMatch(args wire.Table) (string, error) {
	value, ok := args.Get("x-match")
	if !ok {
		return "all", nil
	}
	how, ok := value.(string)
	if !ok {
		return "", Refusal("Invalid x-match field type " + erlang.Type(value) + " (value " + erlang.Term(value) + "); expected longstr")
	}
	switch how {
	case "all", "any", "all-with-x", "any-with-x":
		return how, nil
	}
	return "", Refusal("Invalid x-match field value " + erlang.Term(how) + "; expected all, any, all-with-x, or any-with-x")
}

// match compares as RabbitMQ does before 4.0, or as it does since then if exact is set.
func (p pattern) match(message lookup, exact bool) bool {
	for _, f := range p.fields {
		var value any
		var ok bool
		if exact {
			value, ok = message.findLast(f.key)
			ok = ok && (f.value == nil || identical(f.value, value))
		} else {
			value, ok = message.find(f.key, f.nth)
			ok = ok && (f.value == nil || equal(f.value, value))
		}
		if ok == p.any {
			return p.any
		}
	}
	return !p.any
}

// Refusal is why a headers exchange does not accept a binding, in RabbitMQ's words. RabbitMQ closes
// the channel with 406 PRECONDITION_FAILED.
type Refusal string

func (r Refusal) Error() string { return string(r) }
