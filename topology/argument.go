package topology

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Args are the optional arguments of an exchange, a queue or a binding. Values are string, bool or int64.
type Args map[string]any

// Equal reports whether two tables are the same to the broker: none and empty are, and so are 5 and 5.0.
func (a Args) Equal(b Args) bool { return maps.EqualFunc(a, b, same) }

// names are those of all arguments of the tables, in order.
func names(tables ...Args) []string {
	all := make(Args)
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return slices.Sorted(maps.Keys(all))
}

func same(a, b any) bool { return reflect.DeepEqual(plain(a), plain(b)) }

// plain converts a value to one of the few types that a broker distinguishes.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return plain(f)
	case []byte:
		return string(v)
	case map[string]any:
		return plain(Args(v))
	case Args:
		table := make(map[string]any, len(v))
		for name, value := range v {
			table[name] = plain(value)
		}
		return table
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if r.Uint() <= math.MaxInt64 {
			return int64(r.Uint())
		}
	case reflect.Float32, reflect.Float64:
		if f := r.Float(); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
		return r.Float()
	case reflect.String:
		return r.String()
	case reflect.Slice:
		list := make([]any, r.Len())
		for i := range list {
			list[i] = plain(r.Index(i).Interface())
		}
		return list
	}
	return v
}

// lower is the lower of two numbers, otherwise the first value.
func lower(a, b any) any {
	x, first := plain(a).(int64)
	y, second := plain(b).(int64)
	if first && second {
		return min(x, y)
	}
	return a
}

// precedence is which value applies when an argument and a policy set the same.
type precedence int

const (
	argumentWins precedence = iota
	policyWins
	lowerWins
)

// policyKeys are the arguments of queues that a policy can set, by the policies' names, and for which types.
var policyKeys = map[string]struct {
	precedence precedence
	types      string
}{
	"dead-letter-exchange":          {argumentWins, "classic quorum"},
	"dead-letter-routing-key":       {argumentWins, "classic quorum"},
	"dead-letter-strategy":          {argumentWins, "quorum"},
	"delayed-retry-max":             {lowerWins, "quorum"},
	"delayed-retry-min":             {lowerWins, "quorum"},
	"delayed-retry-type":            {policyWins, "quorum"},
	"delivery-limit":                {lowerWins, "quorum"},
	"expires":                       {lowerWins, "classic quorum"},
	"max-age":                       {policyWins, "stream"},
	"max-in-memory-bytes":           {lowerWins, "quorum"},
	"max-in-memory-length":          {lowerWins, "quorum"},
	"max-length":                    {lowerWins, "classic quorum"},
	"max-length-bytes":              {lowerWins, "classic quorum stream"},
	"message-ttl":                   {lowerWins, "classic quorum"},
	"overflow":                      {argumentWins, "classic quorum"},
	"queue-mode":                    {argumentWins, "classic"},
	"queue-version":                 {argumentWins, "classic"},
	"stream-max-segment-size-bytes": {policyWins, "stream"},
}

// policyKey is the name under which an argument of a queue of this type can be a policy.
func policyKey(kind, argument string) (string, bool) {
	key, ok := strings.CutPrefix(argument, "x-")
	return key, ok && canBePolicy(kind, key)
}

func canBePolicy(kind, key string) bool {
	r, ok := policyKeys[key]
	return ok && slices.Contains(strings.Fields(r.types), kind)
}

// effective is the value that argument and policy give for a queue of this type; nil: none.
func effective(kind string, args, policies Args, key string) any {
	argument, declared := args["x-"+key]
	policy, set := policies[key]
	switch {
	case !set || !canBePolicy(kind, key):
		return argument
	case !declared:
		return policy
	}
	how := policyKeys[key].precedence
	if kind == "quorum" && key == "overflow" {
		how = policyWins
	}
	switch {
	case how == policyWins:
		return policy
	case how == argumentWins:
		return argument
	case key == "delivery-limit" && (negative(argument) || negative(policy)):
		// From RabbitMQ 4.0 on a negative limit is none, and any limit is lower.
		return greater(argument, policy)
	}
	return lower(argument, policy)
}

func negative(v any) bool {
	n, ok := plain(v).(int64)
	return ok && n < 0
}

func greater(a, b any) any {
	if low := lower(a, b); same(low, a) {
		return b
	}
	return a
}
