package rabbit

import (
	"math"

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
				out = make(amqp.Table, len(m))
				for n, v := range m {
					out[n] = v
				}
			}
			out[name] = changed
		}
	}
	if out == nil {
		return amqp.Table(m)
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
	case uint:
		return toField(uint64(v))
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), true
		}
	}
	return nil, false
}

// FromTable is the reverse, so that no type of amqp091-go reaches a user.
func FromTable(t amqp.Table) map[string]any {
	for name, value := range t {
		if changed, ok := fromField(value); ok {
			t[name] = changed
		}
	}
	return t
}

func fromField(v any) (any, bool) {
	switch v := v.(type) {
	case amqp.Table:
		return FromTable(v), true
	case []any:
		return convertAll(v, fromField)
	}
	return nil, false
}

func convertAll(list []any, convert func(any) (any, bool)) (any, bool) {
	var out []any
	for i, e := range list {
		if changed, ok := convert(e); ok {
			if out == nil {
				out = append([]any(nil), list...)
			}
			out[i] = changed
		}
	}
	return out, out != nil
}
