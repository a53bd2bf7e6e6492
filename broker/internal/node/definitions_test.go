package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

// FuzzDefinitionKey: names of any bytes are restored, and no two definitions have the same key.
func FuzzDefinitionKey(f *testing.F) {
	for _, s := range []string{"", "/", "a/b", "\x00\xff", "ü", "queue", strings.Repeat("x", 255), "="} {
		f.Add(s, "other")
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		key := definitionKey(queueKind, first, second)
		kind, names, err := splitKey(key)
		if want := []string{first, second}; err != nil || kind != queueKind || !slices.Equal(names, want) {
			t.Errorf("key %q: got %s %q, %v, want %s %q", key, kind, names, err, queueKind, want)
		}
		if joined := definitionKey(queueKind, first+second); joined == key {
			t.Errorf("one name and two have the key %q", key)
		}
	})
}

// FuzzSplitKey: other strings are refused, and accepted ones are written the same again.
func FuzzSplitKey(f *testing.F) {
	f.Add("queue/Lw/cQ")
	f.Add("queue/!")
	f.Add("queue/Lw==")
	f.Add("")
	f.Fuzz(func(t *testing.T, key string) {
		kind, names, err := splitKey(key)
		if err != nil {
			return
		}
		again, _, err := splitKey(definitionKey(kind, names...))
		if err != nil || again != kind {
			t.Errorf("key %q: got kind %q when written again, %v, want %q", key, again, err, kind)
		}
	})
}

// TestBindingKey: bindings that differ only in the types of their arguments are two.
func TestBindingKey(t *testing.T) {
	d := Destination{Queue: &Queue{QueueSpec: QueueSpec{Name: "q"}}}
	seen := make(map[string]int)
	for i, key := range []string{
		bindingKey("/", "x", d, "k", nil),
		bindingKey("/", "x", d, "k", table("a", int32(1))),
		bindingKey("/", "x", d, "k", table("a", int64(1))),
		bindingKey("/", "x", d, "", nil),
		bindingKey("/", "x", Destination{Exchange: &Exchange{Name: "q"}}, "k", nil),
	} {
		if other, there := seen[key]; there {
			t.Errorf("bindings %d and %d have one key", other, i)
		}
		seen[key] = i
		_, names, err := splitKey(key)
		if err != nil || len(names) != 6 {
			t.Fatalf("key %q: got %d parts, %v, want 6", key, len(names), err)
		}
		if _, err := wire.ParseTable([]byte(names[5])); err != nil {
			t.Errorf("arguments of binding %d: %v", i, err)
		}
	}
}
