package exchange

import (
	"math"
	"slices"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// equal compares a header with an argument of a binding as RabbitMQ does: by value, so that 1 equals
// 1.0. Only within tables and arrays are types compared.
func equal(a, b any) bool {
	if x, ok := text(a); ok {
		y, ok := text(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil, bool, wire.Decimal:
		return a == b
	case wire.Table:
		if b, ok := b.(wire.Array); ok {
			return len(a) == 0 && len(b) == 0 // RabbitMQ has lists for both
		}
		b, ok := b.(wire.Table)
		return ok && slices.EqualFunc(a, b, func(x, y wire.Field) bool { return x.Key == y.Key && equalWithTypes(x.Value, y.Value) })
	case wire.Array:
		if b, ok := b.(wire.Table); ok {
			return len(a) == 0 && len(b) == 0
		}
		b, ok := b.(wire.Array)
		return ok && slices.EqualFunc(a, b, equalWithTypes)
	}
	return equalNumbers(a, b)
}

func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

func equalWithTypes(a, b any) bool { return erlang.Type(a) == erlang.Type(b) && equal(a, b) }

// identical compares an argument of a binding with a header as RabbitMQ does since 4.0: integers and
// floats are never equal, and timestamps are in milliseconds in headers, but in seconds in arguments.
func identical(argument, header any) bool {
	if t, ok := header.(wire.Timestamp); ok {
		header = wire.Timestamp(uint64(t) * 1000)
	}
	_, argumentIsFloat := float(argument)
	_, headerIsFloat := float(header)
	return argumentIsFloat == headerIsFloat && equal(argument, header)
}

func equalNumbers(a, b any) bool {
	x, aIsInteger := integer(a)
	y, bIsInteger := integer(b)
	f, aIsFloat := float(a)
	g, bIsFloat := float(b)
	switch {
	case aIsInteger && bIsInteger:
		return x == y
	case aIsFloat && bIsFloat:
		return f == g
	case aIsInteger && bIsFloat:
		return x.equals(g)
	case aIsFloat && bIsInteger:
		return y.equals(f)
	}
	return false
}

// bigInteger is an integer of any field type: timestamps can exceed int64.
type bigInteger struct {
	negative  bool
	magnitude uint64
}

// equals is exact: no integer is rounded to a float.
func (n bigInteger) equals(f float64) bool {
	magnitude := math.Abs(f)
	return magnitude < 1<<64 && magnitude == math.Trunc(magnitude) && n == bigInteger{f < 0, uint64(magnitude)}
}

func integer(v any) (bigInteger, bool) {
	if t, ok := v.(wire.Timestamp); ok {
		return bigInteger{false, uint64(t)}, true
	}
	i, ok := wire.Integer(v)
	if i < 0 {
		return bigInteger{true, -uint64(i)}, ok
	}
	return bigInteger{false, uint64(i)}, ok
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
