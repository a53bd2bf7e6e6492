package exchange

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

// fields builds a table from keys and values in turn.
func fields(pairs ...any) wire.Table {
	var t wire.Table
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, wire.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

func TestHeaders(t *testing.T) {
	for _, test := range []struct {
		args    wire.Table
		message wire.Table
		want    bool
	}{
		{nil, nil, true},
		{nil, fields("a", true), true},
		{fields("x-match", "all"), nil, true},
		{fields("x-match", "any"), nil, false},
		{fields("x-match", "any"), fields("a", true), false},

		{fields("format", "pdf", "type", "report"), fields("type", "report", "format", "pdf"), true},
		{fields("format", "pdf", "type", "report"), fields("type", "report", "format", "pdf", "other", int32(1)), true},
		{fields("format", "pdf", "type", "report"), fields("format", "pdf"), false},
		{fields("format", "pdf", "type", "report"), fields("format", "pdf", "type", "log"), false},
		{fields("x-match", "all", "format", "pdf", "type", "log"), fields("format", "zip", "type", "log"), false},
		{fields("x-match", "any", "format", "pdf", "type", "log"), fields("format", "zip", "type", "log"), true},
		{fields("x-match", "any", "format", "pdf", "type", "log"), fields("format", "zip"), false},
		{fields("x-match", "any", "format", "pdf", "type", "log"), nil, false},

		{fields("a", true), fields("a", true), true},
		{fields("a", true), fields("a", false), false},
		{fields("a", true), fields("A", true), false},
		{fields("a", nil), fields("a", false), true},
		{fields("a", nil), fields("a", nil), true},
		{fields("a", nil), fields("b", false), false},
		{fields("a", false), fields("a", nil), false},
		{fields("x-match", "any", "a", nil, "b", nil), fields("b", "anything"), true},

		{fields("x-a", "1"), nil, true},
		{fields("x-match", "any", "x-a", "1"), fields("x-a", "1"), false},
		{fields("x-match", "all", "x-a", "1", "b", "2"), fields("b", "2"), true},
		{fields("x-match", "all-with-x", "x-a", "1", "b", "2"), fields("b", "2"), false},
		{fields("x-match", "all-with-x", "x-a", "1", "b", "2"), fields("b", "2", "x-a", "1"), true},
		{fields("x-match", "any-with-x", "x-a", "1", "b", "2"), fields("x-a", "1"), true},
		{fields("x-match", "any-with-x", "x-a", "1"), fields("x-match", "any-with-x"), false},
		{fields("x-match", "all-with-x"), nil, true},
		{fields("X-a", "1"), nil, false}, // the prefix is in small letters

		// RabbitMQ sorts both by key, and compares fields with the same key in the order in which they came.
		{fields("a", int32(1)), fields("a", int32(1), "a", int32(2)), true},
		{fields("a", int32(2)), fields("a", int32(1), "a", int32(2)), false},
		{fields("a", int32(1), "a", int32(2)), fields("a", int32(1), "b", int32(0), "a", int32(2)), true},
		{fields("a", int32(1), "a", int32(1)), fields("a", int32(1)), false},
		{fields("a", "1", "a", "2", "a", "3"), fields("a", "1", "a", "2", "a", "3"), true},
		{fields("a", "1", "a", "2", "a", "2"), fields("a", "1", "a", "2", "a", "3"), false},
		{fields("x-match", "any", "x-match", "all", "a", "1", "b", "2"), fields("a", "1"), true},
	} {
		table := New[string](Headers)
		mustAdd(t, table, "q", "any key", test.args)
		if got := len(matches(t, table, "another key", test.message)) == 1; got != test.want {
			t.Errorf("%v for %v: got %t, want %t", test.message, test.args, got, test.want)
		}
		many := slices.Clone(test.message)
		for i := range 2 * manyHeaders {
			many = append(many, wire.Field{Key: fmt.Sprintf("unrelated %d", (i*37)%101), Value: "1"})
		}
		if got := len(matches(t, table, "another key", many)) == 1; got != test.want {
			t.Errorf("%v and many others for %v: got %t, want %t", test.message, test.args, got, test.want)
		}
	}
}

func TestHeadersOfOneDestination(t *testing.T) {
	table := New[string](Headers)
	mustAdd(t, table, "q", "", fields("a", "1"))
	mustAdd(t, table, "q", "", fields("b", "2"))
	mustAdd(t, table, "p", "", fields("b", "2"))
	if got, want := matches(t, table, "", fields("a", "1", "b", "2")), []string{"p", "q"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	table.Remove("q", "", fields("b", "2"))
	if got, want := matches(t, table, "", fields("b", "2")), []string{"p"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInvalidXMatch(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{"some", `Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x`},
		{"", `Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x`},
		{"ALL", `Invalid x-match field value <<"ALL">>; expected all, any, all-with-x, or any-with-x`},
		{[]byte("all"), `Invalid x-match field type binary (value <<"all">>); expected longstr`},
		{int32(1), `Invalid x-match field type signedint (value 1); expected longstr`},
		{true, `Invalid x-match field type bool (value true); expected longstr`},
		{nil, `Invalid x-match field type void (value undefined); expected longstr`},
	} {
		args := fields("a", "1", "x-match", test.value)
		table := New[string](Headers)
		added, err := table.Add("q", "", args)
		if added || err != Refusal(test.want) {
			t.Errorf("%v: got %t, %v, want the refusal %s", test.value, added, err, test.want)
		}
		if table.Len() != 0 || len(matches(t, table, "", fields("a", "1"))) != 0 {
			t.Errorf("%v: the refused binding is there", test.value)
		}
		if table.Remove("q", "", args) {
			t.Errorf("%v: the refused binding was removed", test.value)
		}
		mustAdd(t, New[string](Topic), "q", "", args)
	}
}

// naiveHeaders merges both tables, sorted by key, as RabbitMQ does.
func naiveHeaders(args, message wire.Table) bool {
	mode, _ := args.Get("x-match")
	how, _ := mode.(string)
	args, message = args.Sorted(), message.Sorted()
	hits, misses := 0, 0
	for len(args) > 0 {
		switch key := args[0].Key; {
		case key == "x-match", strings.HasPrefix(key, "x-") && !strings.HasSuffix(how, "-with-x"):
			args = args[1:]
		case len(message) == 0 || message[0].Key > key:
			misses++
			args = args[1:]
		case message[0].Key < key:
			message = message[1:]
		default:
			if args[0].Value == nil || equal(message[0].Value, args[0].Value) {
				hits++
			} else {
				misses++
			}
			args, message = args[1:], message[1:]
		}
	}
	if strings.HasPrefix(how, "any") {
		return hits > 0
	}
	return misses == 0
}

func (c *choices) arguments() wire.Table {
	how := []string{"", "all", "any", "all-with-x", "any-with-x"}[c.below(5)]
	t := c.headers()
	if how != "" {
		t = slices.Insert(t, c.below(len(t)+1), wire.Field{Key: "x-match", Value: how})
	}
	return t
}

func (c *choices) headers() wire.Table {
	keys := []string{"a", "b", "x-a", "x-", "X-a"}
	values := []any{nil, true, false, "1", []byte("1"), int8(1), int64(1), float32(1), 1.5, wire.Timestamp(1), wire.Table{}, wire.Array{}}
	var t wire.Table
	for range c.below(5) {
		t = append(t, wire.Field{Key: keys[c.below(len(keys))], Value: values[c.below(len(values))]})
	}
	return t
}

func FuzzHeaders(f *testing.F) {
	f.Add([]byte{2, 3, 0, 1, 1, 3, 1, 5, 0, 2, 0, 1, 1, 6})
	f.Add([]byte{4, 4, 2, 1, 2, 3, 0, 0, 0, 4, 2, 3, 2, 1, 2, 3, 0, 1, 0, 4})
	f.Fuzz(func(t *testing.T, steps []byte) {
		c := choices(steps)
		args, message := c.arguments(), c.headers()
		if c.below(4) == 0 {
			for i := range manyHeaders {
				message = append(message, wire.Field{Key: fmt.Sprint(i % 40), Value: true})
			}
		}
		table := New[string](Headers)
		mustAdd(t, table, "q", "", args)
		if got, want := len(matches(t, table, "", message)) == 1, naiveHeaders(args, message); got != want {
			t.Fatalf("%v for %v: got %t, want %t", message, args, got, want)
		}
	})
}
