package exchange

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// matches returns the destinations of one match, sorted. It fails the test if one is visited twice.
func matches(t *testing.T, table *Table[string], key string, message wire.Table) []string {
	t.Helper()
	got := []string{}
	table.Match(key, func() wire.Table { return message }, func(dst string) { got = append(got, dst) })
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("match %q %v: a destination was visited twice: %q", key, message, got)
	}
	return got
}

func mustAdd(t testing.TB, table *Table[string], dst, key string, args wire.Table) {
	t.Helper()
	if added, err := table.Add(dst, key, args); !added || err != nil {
		t.Fatalf("add %q %q %v: got %t, %v, want a new binding", dst, key, args, added, err)
	}
}

func TestDirect(t *testing.T) {
	table := New[string](Direct)
	mustAdd(t, table, "errors", "error", nil)
	mustAdd(t, table, "all", "error", nil)
	mustAdd(t, table, "all", "error", wire.Table{{Key: "why", Value: "another binding of the same queue"}})
	mustAdd(t, table, "all", "info", nil)
	mustAdd(t, table, "nameless", "", nil)
	for key, want := range map[string][]string{
		"error": {"all", "errors"}, "info": {"all"}, "": {"nameless"}, "debug": {}, "Error": {}, "#": {},
	} {
		if got := matches(t, table, key, nil); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func TestFanout(t *testing.T) {
	table := New[string](Fanout)
	mustAdd(t, table, "a", "", nil)
	mustAdd(t, table, "b", "ignored", nil)
	mustAdd(t, table, "b", "", nil)
	for _, key := range []string{"", "ignored", "other"} {
		if got, want := matches(t, table, key, nil), []string{"a", "b"}; !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func TestSameBinding(t *testing.T) {
	args := wire.Table{{Key: "b", Value: int32(1)}, {Key: "a", Value: "x"}, {Key: "b", Value: int32(2)}}
	for _, test := range []struct {
		name string
		dst  string
		key  string
		args wire.Table
		same bool
	}{
		{"itself", "q", "k", args, true},
		{"another order of keys", "q", "k", wire.Table{args[1], args[0], args[2]}, true},
		{"another order of one key's values", "q", "k", wire.Table{args[2], args[1], args[0]}, false},
		{"another destination", "p", "k", args, false},
		{"another key", "q", "K", args, false},
		{"no arguments", "q", "k", nil, false},
		{"fewer arguments", "q", "k", args[:2], false},
		{"another type", "q", "k", wire.Table{{Key: "b", Value: int64(1)}, args[1], args[2]}, false},
		{"another value", "q", "k", wire.Table{{Key: "b", Value: int32(7)}, args[1], args[2]}, false},
	} {
		for _, kind := range []Kind{Direct, Fanout, Topic, Headers} {
			table := New[string](kind)
			mustAdd(t, table, "q", "k", args)
			if added, err := table.Add(test.dst, test.key, test.args); added == test.same || err != nil {
				t.Errorf("%s, %s: add: got %t, %v, want %t", kind, test.name, added, err, !test.same)
			}
			table = New[string](kind)
			mustAdd(t, table, "q", "k", args)
			if removed := table.Remove(test.dst, test.key, test.args); removed != test.same {
				t.Errorf("%s, %s: remove: got %t, want %t", kind, test.name, removed, test.same)
			}
		}
	}
}

func TestAll(t *testing.T) {
	type bound struct {
		dst, key string
		args     wire.Table
	}
	table := New[string](Topic)
	mustAdd(t, table, "q", "z", nil)
	mustAdd(t, table, "gone", "y", nil)
	mustAdd(t, table, "p", "#", wire.Table{{Key: "b", Value: true}, {Key: "a", Value: nil}})
	table.Remove("gone", "y", nil)
	mustAdd(t, table, "q", "a", nil)
	var got []bound
	table.All(func(dst, key string, args wire.Table) { got = append(got, bound{dst, key, args}) })
	want := []bound{{"q", "z", nil}, {"p", "#", wire.Table{{Key: "a", Value: nil}, {Key: "b", Value: true}}}, {"q", "a", nil}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if table.Len() != len(want) {
		t.Errorf("Len: got %d, want %d", table.Len(), len(want))
	}
}

func TestArgumentsBeyondAMQP(t *testing.T) {
	table := New[string](Fanout)
	mustAdd(t, table, "q", "", nil)
	args := wire.Table{{Key: "a", Value: struct{}{}}}
	if added, err := table.Add("q", "", args); added || err == nil {
		t.Errorf("add: got %t, %v, want an error", added, err)
	}
	if table.Remove("q", "", args) {
		t.Errorf("remove: got true, want false")
	}
}

func TestUnknownKind(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Errorf("New with an unknown kind did not panic")
		}
	}()
	New[string]("x-random")
}

func TestHeadersAreReadByHeadersExchangesAlone(t *testing.T) {
	for kind, want := range map[Kind]int{Direct: 0, Fanout: 0, Topic: 0, Headers: 1} {
		table := New[string](kind)
		calls := 0
		match := func() {
			table.Match("k", func() wire.Table { calls++; return nil }, func(string) {})
		}
		match()
		if calls != 0 {
			t.Errorf("%s without bindings: headers were read %d times, want 0", kind, calls)
		}
		for i := range 3 {
			mustAdd(t, table, fmt.Sprint(i), "k", nil)
		}
		match()
		if calls != want {
			t.Errorf("%s: headers were read %d times, want %d", kind, calls, want)
		}
	}
}

func TestMatchConcurrently(t *testing.T) {
	for _, kind := range []Kind{Direct, Fanout, Topic, Headers} {
		table := New[string](kind)
		for i := range 50 {
			mustAdd(t, table, fmt.Sprint(i), "a.b", nil)
			mustAdd(t, table, fmt.Sprint(i), "a.#", nil)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 50 {
					n := 0
					table.Match("a.b", func() wire.Table { return nil }, func(string) { n++ })
					if n != 50 {
						t.Errorf("%s: got %d destinations, want 50", kind, n)
					}
				}
			})
		}
		all.Wait()
	}
}

// model is a table that compares every binding with the naive matchers.
type model struct {
	kind     Kind
	bindings []modelBinding
}

type modelBinding struct {
	dst, key string
	args     wire.Table
	sorted   string // the arguments, to compare them
}

func (m *model) find(b modelBinding) int {
	return slices.IndexFunc(m.bindings, func(o modelBinding) bool { return o.dst == b.dst && o.key == b.key && o.sorted == b.sorted })
}

func (m *model) add(b modelBinding) bool {
	if m.find(b) >= 0 {
		return false
	}
	m.bindings = append(m.bindings, b)
	return true
}

func (m *model) remove(b modelBinding) bool {
	i := m.find(b)
	if i < 0 {
		return false
	}
	m.bindings = slices.Delete(m.bindings, i, i+1)
	return true
}

func (m *model) removeAll(dst string) int {
	before := len(m.bindings)
	m.bindings = slices.DeleteFunc(m.bindings, func(b modelBinding) bool { return b.dst == dst })
	return before - len(m.bindings)
}

func (m *model) match(key string, message wire.Table) []string {
	got := []string{}
	for _, b := range m.bindings {
		if m.kind == Fanout || m.kind == Direct && b.key == key || m.kind == Topic && naiveTopic(b.key, key) ||
			m.kind == Headers && naiveHeaders(b.args, message) {
			got = append(got, b.dst)
		}
	}
	slices.Sort(got)
	return slices.Compact(got)
}

// choices takes decisions from the bytes of a fuzzer.
type choices []byte

func (c *choices) below(n int) int {
	if len(*c) == 0 {
		return 0
	}
	v := int((*c)[0])
	*c = (*c)[1:]
	return v % n
}

func (c *choices) binding() modelBinding {
	b := modelBinding{dst: c.destination(), key: c.topic("a", "b", "*", "#"), args: c.arguments()}
	b.sorted = erlang.Term(b.args.Sorted())
	return b
}

func (c *choices) destination() string { return string(rune('p' + c.below(4))) }

func (c *choices) topic(words ...string) string {
	key := ""
	for i := range c.below(5) {
		if i > 0 {
			key += "."
		}
		key += words[c.below(len(words))]
	}
	return key
}

// compareWithModel does the same to a table and to the model.
func compareWithModel(t *testing.T, kind Kind, steps []byte) {
	m := &model{kind: kind}
	table := New[string](m.kind)
	c := choices(steps)
	for len(c) > 0 {
		var op string
		var got, want any
		switch c.below(8) {
		case 0, 1, 2:
			b := c.binding()
			op, want = fmt.Sprintf("add %v", b), m.add(b)
			added, err := table.Add(b.dst, b.key, b.args)
			if err != nil {
				t.Fatalf("%s %s: %v", m.kind, op, err)
			}
			got = added
		case 3:
			b := c.binding()
			op, got, want = fmt.Sprintf("remove %v", b), table.Remove(b.dst, b.key, b.args), m.remove(b)
		case 4:
			if len(m.bindings) > 0 {
				b := m.bindings[c.below(len(m.bindings))]
				op, got, want = fmt.Sprintf("remove the bound %v", b), table.Remove(b.dst, b.key, b.args), m.remove(b)
			}
		case 5:
			if dst := c.destination(); c.below(4) == 0 {
				op, got, want = "remove all of "+dst, table.RemoveAll(dst), m.removeAll(dst)
			}
		default:
			key, message := c.topic("a", "b", "c"), c.headers()
			op, got, want = fmt.Sprintf("match %q %v", key, message), matches(t, table, key, message), m.match(key, message)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s %s: got %v, want %v; bound: %v", m.kind, op, got, want, m.bindings)
		}
		if table.Len() != len(m.bindings) {
			t.Fatalf("%s %s: got %d bindings, want %d", m.kind, op, table.Len(), len(m.bindings))
		}
	}
	for _, dst := range []string{"p", "q", "r", "s"} {
		table.RemoveAll(dst)
	}
	if topic, ok := table.index.(*topic[string]); ok && (!topic.root.empty() || len(topic.hashes) > 0) {
		t.Fatalf("an emptied topic exchange keeps nodes: %+v", topic.root)
	}
}

func randomSteps(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	steps := make([]byte, n)
	for i := range steps {
		steps[i] = byte(random.Uint32())
	}
	return steps
}

func TestTableIsLikeModel(t *testing.T) {
	for _, kind := range []Kind{Direct, Fanout, Topic, Headers} {
		for seed := range uint64(10) {
			compareWithModel(t, kind, randomSteps(seed, 1500))
		}
	}
}

func FuzzTable(f *testing.F) {
	for _, kind := range []Kind{Direct, Fanout, Topic, Headers} {
		f.Add(string(kind), randomSteps(0, 60)) // short, because the fuzzer takes long to minimize long ones
	}
	f.Fuzz(func(t *testing.T, name string, steps []byte) {
		if kind, ok := ParseKind(name); ok && len(steps) <= 300 {
			compareWithModel(t, kind, steps)
		}
	})
}
