package topology

import (
	"encoding/json"
	"maps"
	"testing"
)

func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{5, int64(5), true}, {uint8(5), json.Number("5"), true}, {5.0, 5, true}, {"5", 5, false}, {true, "true", false},
		{[]byte("x"), "x", true}, {nil, "", false}, {nil, nil, true}, {json.Number("1.5"), 1.5, true},
		{map[string]any{"a": 1}, Args{"a": int64(1)}, true}, {[]any{1, "x"}, []any{int32(1), "x"}, true}, {[]any{1}, []any{2}, false},
		{[]string{"a"}, []any{"a"}, true},
	} {
		if got := same(c.a, c.b); got != c.want {
			t.Errorf("same(%#v, %#v): got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// What counts when an argument and a policy meet is not the same for all of them.
func TestEffective(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		kind, key        string
		argument, policy any
		want             any
	}{
		{"neither", "classic", "message-ttl", nil, nil, nil},
		{"argument alone", "classic", "message-ttl", 5, nil, 5},
		{"policy alone", "classic", "message-ttl", nil, 6, 6},
		{"lower policy", "classic", "message-ttl", 9, 6, 6},
		{"lower argument", "quorum", "max-length", 5, 6, 5},
		{"dead letters", "quorum", "dead-letter-exchange", "mine", "theirs", "mine"},
		{"dead letters by policy", "quorum", "dead-letter-exchange", nil, "theirs", "theirs"},
		{"overflow of a classic queue", "classic", "overflow", "reject-publish", "drop-head", "reject-publish"},
		{"overflow of a quorum queue", "quorum", "overflow", "reject-publish", "drop-head", "drop-head"},
		{"limit", "quorum", "delivery-limit", 50, 20, 20},
		{"no limit by argument", "quorum", "delivery-limit", -1, 20, 20},
		{"no limit by policy", "quorum", "delivery-limit", 50, -1, 50},
		{"no limit at all", "quorum", "delivery-limit", -1, -1, -1},
		{"limit of a classic queue", "classic", "delivery-limit", nil, 20, nil},
		{"age", "stream", "max-age", "7D", "1D", "1D"},
		{"priorities", "classic", "max-priority", 3, 5, 3},
	} {
		args, policies := Args{}, Args{}
		if c.argument != nil {
			args["x-"+c.key] = c.argument
		}
		if c.policy != nil {
			policies[c.key] = c.policy
		}
		if got := effective(c.kind, args, policies, c.key); !same(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// with is the table with one more argument.
func (a Args) with(name string, value any) Args {
	b := make(Args, len(a)+1)
	maps.Copy(b, a)
	b[name] = value
	return b
}
