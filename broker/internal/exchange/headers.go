package exchange

import (
	"strings"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// headers tries every binding: each has its own pattern.
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
	matches := pattern.match
	if h.exact {
		matches = pattern.matchExactly
	}
	for _, to := range h.destinations.all {
		for _, b := range to.bindings {
			if matches(b.pattern, message) {
				visit(to.name)
				break
			}
		}
	}
}

// pattern is what a binding's arguments ask of a message's headers.
type pattern struct {
	any    bool // one field is enough
	fields []field
}

// field is one header that is asked for.
type field struct {
	key   string
	nth   int  // of the fields with this key, which RabbitMQ pairs with the message's in order
	exist bool // whatever its value
	value any
}

// compile reads arguments that are sorted by key.
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
		f := field{key: arg.Key, exist: arg.Value == nil, value: arg.Value}
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

func (p pattern) match(message lookup) bool {
	for _, f := range p.fields {
		value, ok := message.find(f.key, f.nth)
		if fits := ok && (f.exist || equal(f.value, value)); fits == p.any {
			return p.any
		}
	}
	return !p.any
}

// matchExactly is match as it is from RabbitMQ 4.0 on.
func (p pattern) matchExactly(message lookup) bool {
	for _, f := range p.fields {
		value, ok := message.findLast(f.key)
		if fits := ok && (f.exist || identical(f.value, value)); fits == p.any {
			return p.any
		}
	}
	return !p.any
}

// Refusal is why a headers exchange does not take a binding, in RabbitMQ's words. RabbitMQ closes the channel for it
// with 406 PRECONDITION_FAILED.
type Refusal string

func (r Refusal) Error() string { return string(r) }
