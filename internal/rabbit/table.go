package rabbit

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ToTable turns nested maps into the type that amqp091-go encodes. Maps without nested ones, the
// usual case, are not copied.
func ToTable(m map[string]any) amqp.Table {
	if m == nil {
		return nil
	}
	var out amqp.Table
	for name, value := range m {
		if changed, ok := toField(value); ok {
			if out == nil {
				out = maps.Clone(amqp.Table(m))
			}
			out[name] = changed
		}
	}
	if out == nil {
		return m
	}
	return out
}

func toField(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return ToTable(v), true
	case []any:
		return convertAll(v, toField)
	case []string:
		out := make([]any, len(v))
		for i, s := range v {
			out[i] = s
		}
		return out, true
	case int: // amqp091-go would send its lower 32 bits
		return int64(v), true
	case uint:
		return toField(uint64(v))
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), true
		}
	}
	return nil, false
}

// FromTable is the reverse, so that no type of amqp091-go reaches a user. Its argument stays unchanged: a
// message that is published again keeps its types.
func FromTable(t amqp.Table) map[string]any {
	out, changed := t, false
	for name, value := range t {
		if converted, ok := fromField(value); ok {
			if !changed {
				out, changed = maps.Clone(t), true
			}
			out[name] = converted
		}
	}
	return out
}

func fromField(v any) (any, bool) {
	switch v := v.(type) {
	case amqp.Table:
		return FromTable(v), true
	case []any:
		return convertAll(v, fromField)
	case amqp.Decimal:
		return decimal(v), true
	}
	return nil, false
}

// decimal writes a decimal number as text: Go has no type for it.
func decimal(d amqp.Decimal) string {
	digits := strconv.FormatInt(int64(d.Value), 10)
	if d.Scale == 0 {
		return digits
	}
	sign := ""
	if d.Value < 0 {
		sign, digits = "-", digits[1:]
	}
	if short := int(d.Scale) + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	point := len(digits) - int(d.Scale)
	return sign + digits[:point] + "." + digits[point:]
}

func convertAll(list []any, convert func(any) (any, bool)) (any, bool) {
	var out []any
	for i, e := range list {
		if changed, ok := convert(e); ok {
			if out == nil {
				out = slices.Clone(list)
			}
			out[i] = changed
		}
	}
	return out, out != nil
}
