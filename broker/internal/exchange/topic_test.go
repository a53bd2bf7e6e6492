package exchange

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTopicTutorial is the example of RabbitMQ's fifth tutorial.
func TestTopicTutorial(t *testing.T) {
	table := New[string](Topic)
	mustAdd(t, table, "Q1", "*.orange.*", nil)
	mustAdd(t, table, "Q2", "*.*.rabbit", nil)
	mustAdd(t, table, "Q2", "lazy.#", nil)
	for key, want := range map[string][]string{
		"quick.orange.rabbit":      {"Q1", "Q2"},
		"lazy.orange.elephant":     {"Q1", "Q2"},
		"quick.orange.fox":         {"Q1"},
		"lazy.brown.fox":           {"Q2"},
		"lazy.pink.rabbit":         {"Q2"}, // by two bindings, once
		"quick.brown.fox":          {},
		"orange":                   {},
		"quick.orange.new.rabbit":  {},
		"lazy.orange.new.rabbit":   {"Q2"},
		"lazy":                     {"Q2"},
		"lazy.":                    {"Q2"},
		"":                         {},
		".":                        {},
		"*.orange.*":               {"Q1"},
		"#":                        {},
		"lazy.#":                   {"Q2"},
		"lazybones.orange.rabbit.": {},
	} {
		if got := matches(t, table, key, nil); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

// TestTopicPatterns has the patterns and keys of RabbitMQ's own tests, and edge cases of words.
func TestTopicPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern string
		match   []string
		differ  []string
	}{
		{"", []string{""}, []string{".", "a", "*", "#"}},
		{".", []string{"."}, []string{"", "..", "a.", ".a"}},
		{"#", []string{"", ".", "a", "a.b.c", "#", "*"}, nil},
		{"#.#", []string{"", ".", "a", "a.b.c"}, nil},
		{"#.#.#", []string{"", "a", "a.b"}, nil},
		{"*", []string{"a", "*", "#"}, []string{"", ".", "a.b"}},
		{"*.*", []string{".", "a.b", "a."}, []string{"", "a", "a.b.c"}},
		{"*.#", []string{"a", ".", "a.b.c"}, []string{""}},
		{"#.*", []string{"a", ".", "a.b.c"}, []string{""}},
		{"#.*.#", []string{"a", ".", "a.b.c"}, []string{""}},
		{"*.#.*", []string{"a.b", ".", "a.b.c"}, []string{"", "a"}},
		{"a.b.c", []string{"a.b.c"}, []string{"a.b", "a.b.c.d", "a.b.d", "A.b.c"}},
		{"a.*.c", []string{"a.b.c", "a..c", "a.*.c"}, []string{"a.c", "a.b.b.c"}},
		{"a.#.c", []string{"a.c", "a.b.c", "a.b.b.c", "a.c.c", "a.#.c"}, []string{"a", "c", "a.b", "a.c.b"}},
		{"a.#.b.#.c", []string{"a.b.c", "a.x.b.y.c", "a.b.b.c.c"}, []string{"a.c", "a.c.b"}},
		{"#.a", []string{"a", "a.a", "b.a"}, []string{"", "a.b", "aa"}},
		{"a#", []string{"a#"}, []string{"a", "ab", "a.b"}},
		{"*a", []string{"*a"}, []string{"a", "ba"}},
		{"##", []string{"##"}, []string{"", "a", "#"}},
		{"é.ü", []string{"é.ü"}, []string{"e.u"}},
		{"\xff.*", []string{"\xff.\xfe"}, []string{"\xfe.\xff"}},
	} {
		table := New[string](Topic)
		mustAdd(t, table, "q", test.pattern, nil)
		for _, key := range test.match {
			if len(matches(t, table, key, nil)) != 1 {
				t.Errorf("%q does not match %q, want a match", test.pattern, key)
			}
		}
		for _, key := range test.differ {
			if len(matches(t, table, key, nil)) != 0 {
				t.Errorf("%q matches %q, want no match", test.pattern, key)
			}
		}
	}
}

// hostilePatterns take practically forever in a matcher that tries every way to divide words among "#".
func hostilePatterns() []string {
	return []string{
		strings.Repeat("#.", 127) + "#",
		strings.Repeat("#.", 127) + "b",
		strings.Repeat("#.a.", 63) + "b",
		strings.Repeat("#.*.", 63) + "b",
		strings.Repeat("*.#.", 63) + "b",
	}
}

// longKey has as many words as 255 bytes hold.
func longKey() string { return strings.Repeat("a.", 127) + "a" }

func TestTopicHostilePatterns(t *testing.T) {
	table := New[string](Topic)
	for i, pattern := range hostilePatterns() {
		mustAdd(t, table, fmt.Sprint(i), pattern, nil)
	}
	if got, want := matches(t, table, longKey(), nil), []string{"0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := matches(t, table, longKey()[2:]+".b", nil), []string{"0", "1", "2", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// naiveTopic tries, for each "#", every number of words.
func naiveTopic(pattern, key string) bool {
	p, k := split(pattern), split(key)
	type position struct{ p, k int }
	known := make(map[position]bool)
	var fits func(position) bool
	fits = func(at position) (fit bool) {
		if fit, ok := known[at]; ok {
			return fit
		}
		defer func() { known[at] = fit }()
		switch {
		case at.p == len(p):
			return at.k == len(k)
		case p[at.p] == "#":
			return fits(position{at.p + 1, at.k}) || at.k < len(k) && fits(position{at.p, at.k + 1})
		case at.k == len(k):
			return false
		}
		return (p[at.p] == "*" || p[at.p] == k[at.k]) && fits(position{at.p + 1, at.k + 1})
	}
	return fits(position{})
}

func FuzzTopic(f *testing.F) {
	f.Add("*.orange.* *.*.rabbit lazy.#", "lazy.orange.rabbit")
	f.Add("#.#.# #.a.# a.#.#.b *.#.* #.*", "a.b.a.b")
	f.Add("a a. .a . .. * # ", ".")
	f.Fuzz(func(t *testing.T, patterns, key string) {
		if len(patterns) > 512 || len(key) > 64 {
			return
		}
		table := New[string](Topic)
		bound := slices.Compact(slices.Sorted(strings.SplitSeq(patterns, " ")))
		for _, pattern := range bound {
			mustAdd(t, table, pattern, pattern, nil)
		}
		for len(bound) > 0 {
			want := []string{}
			for _, pattern := range bound {
				if naiveTopic(pattern, key) {
					want = append(want, pattern)
				}
			}
			if got := matches(t, table, key, nil); !slices.Equal(got, want) {
				t.Fatalf("%q bound to %q: got %q, want %q", key, bound, got, want)
			}
			for _, pattern := range bound[len(bound)/2:] {
				table.Remove(pattern, pattern, nil)
			}
			bound = bound[:len(bound)/2]
		}
	})
}
