package mgmt

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// shown converts an AMQP table to JSON.
func shown(t wire.Table) object {
	o := make(object, len(t))
	for _, f := range t {
		o[printable(f.Key)] = shownValue(f.Value)
	}
	return o
}

func shownValue(value any) any {
	switch v := value.(type) {
	case wire.Table:
		return shown(v)
	case wire.Array:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = shownValue(e)
		}
		return all
	case []byte:
		return printable(string(v))
	case string:
		return printable(v)
	case wire.Timestamp:
		return uint64(v)
	case wire.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	}
	return value
}

// printable replaces bytes that are not UTF-8, which JSON cannot have.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// table converts a JSON object to an AMQP table, with the types that RabbitMQ chooses.
func table(o map[string]any) (wire.Table, error) {
	var t wire.Table
	for _, key := range slices.Sorted(maps.Keys(o)) {
		value, err := tableValue(o[key])
		if err != nil {
			return nil, err
		}
		t = append(t, wire.Field{Key: key, Value: value})
	}
	return t, nil
}

func tableValue(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, badRequest("null_not_allowed")
	case map[string]any:
		return table(v)
	case []any:
		array := wire.Array{}
		for _, e := range v {
			element, err := tableValue(e)
			if err != nil {
				return nil, err
			}
			array = append(array, element)
		}
		return array, nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		n, err := v.Float64()
		if err != nil || !strings.ContainsAny(v.String(), ".eE") {
			return nil, badRequest("number_too_large")
		}
		return n, nil
	}
	return value, nil
}

// arguments reads the arguments of a declaration or binding.
func (f *fields) arguments() wire.Table {
	t, err := table(f.table("arguments"))
	if err == nil {
		err = t.Check()
	}
	f.failWith(err)
	return t
}
