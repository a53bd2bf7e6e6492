package admin

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// typings are the AMQP values that the API may show as v, the likely ones first. Most programs give all their numbers the same type, and all their texts:
// these combinations come first. Then come mixed ones: all of the two likeliest types of each value, all of three, and so on.
func typings(v any) iter.Seq[any] {
	return func(yield func(any) bool) {
		var f form
		build := f.add(v, true)
		tried := make(map[string]bool)
		for pick := range f.uniform() {
			if id := fmt.Sprint(pick); !tried[id] {
				tried[id] = true
				if !yield(build(pick)) {
					return
				}
			}
		}
		for pick := range f.mixed() {
			if !tried[fmt.Sprint(pick)] && !yield(build(pick)) {
				return
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
