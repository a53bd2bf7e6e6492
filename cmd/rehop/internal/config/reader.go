package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/cmd/rehop/internal/typo"
)

// reader reads the values of a file and collects the errors.
type reader struct {
	path   string
	env    func(name string) (string, bool)
	faults Faults
	notes  Faults
	// here: report programs of command targets and files with certificates that this machine does not have.
	here bool
	// flowsAt are the positions of the flows, in their order.
	flowsAt []places
	// client: the file is read to find the broker. What only the service needs may be missing in the environment.
	client bool
	// onlyUser is the only user that is read. Empty: all are.
	onlyUser string
	// withoutPassword are the names of users that have none.
	withoutPassword []*yaml.Node
}

func (r *reader) fault(at *yaml.Node, format string, args ...any) {
	line := 0
	if at != nil {
		line = at.Line
	}
	r.faults = append(r.faults, Fault{File: r.path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// note adds a hint that is not an error.
func (r *reader) note(at *yaml.Node, format string, args ...any) {
	r.notes = append(r.notes, Fault{File: r.path, Line: at.Line, Text: fmt.Sprintf(format, args...)})
}

// keys are functions that read the value of each key of a mapping.
type keys map[string]func(*yaml.Node)

// mapping reads a mapping and returns the positions of its keys. what is its name in faults.
func (r *reader) mapping(n *yaml.Node, what string, known keys) places {
	found := places{what: what, self: n, keys: make(map[string]*yaml.Node)}
	r.pairs(n, what, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			r.unknown(key, "key", what, slices.Sorted(maps.Keys(known)))
			return
		}
		found.keys[key.Value] = key
		if value = aliased(value); value.Tag == "!!null" {
			r.fault(key, "%s has no value", key.Value)
			return
		}
		read(value)
	})
	return found
}

// named reads a mapping whose keys are names that the author of the file chooses.
func (r *reader) named(n *yaml.Node, what string, read func(name string, key, value *yaml.Node)) {
	r.pairs(n, what, func(key, value *yaml.Node) {
		if key.Value == "" {
			r.fault(key, "a name in %s is empty", what)
			return
		}
		read(key.Value, key, aliased(value))
	})
}

// pairs calls see once for each key of a mapping. Mappings that are merged with << come last, and each only once: a second time would add
// nothing, and a mapping could be merged into itself.
func (r *reader) pairs(n *yaml.Node, what string, see func(key, value *yaml.Node)) {
	seen, walked := make(map[string]*yaml.Node), make(map[*yaml.Node]bool)
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		n = aliased(n)
		top := len(walked) == 0
		if walked[n] {
			return
		}
		walked[n] = true
		if n.Kind != yaml.MappingNode {
			r.fault(n, "%s must have keys and values, and is %s", what, kindOf(n))
			return
		}
		var merged []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := aliased(n.Content[i]), n.Content[i+1]
			switch first := seen[key.Value]; {
			case key.Tag == "!!merge":
				merged = append(merged, value)
			case key.Kind != yaml.ScalarNode:
				r.fault(key, "a key of %s must be a word", what)
			case first == nil:
				seen[key.Value] = key
				see(key, value)
			case top:
				r.fault(key, "%s is there twice, first in line %d", key.Value, first.Line)
			}
		}
		for _, m := range merged {
			if m = aliased(m); m.Kind != yaml.SequenceNode {
				walk(m)
				continue
			}
			for _, one := range m.Content {
				walk(one)
			}
		}
	}
	walk(n)
}

func (r *reader) unknown(at *yaml.Node, kind, what string, known []string) {
	if near := typo.Nearest(at.Value, known); near != "" {
		r.fault(at, "unknown %s %q in %s; did you mean %q?", kind, at.Value, what, near)
		return
	}
	r.fault(at, "unknown %s %q in %s; there are %s", kind, at.Value, what, strings.Join(known, ", "))
}

func aliased(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return "a single value"
}

// scalar returns the text of a value with references to the environment replaced. shown is the text for faults: values from the
// environment can be secrets.
func (r *reader) scalar(n *yaml.Node, want string) (text, shown string, ok bool) {
	if n.Kind != yaml.ScalarNode {
		r.fault(n, "this must be %s, and is %s", want, kindOf(n))
		return "", "", false
	}
	text, missing := expand(n.Value, r.env)
	for _, m := range missing {
		r.fault(n, "%s", m)
	}
	return text, strconv.Quote(n.Value), len(missing) == 0
}

// errInvalid is for parse functions of value, whose errors are not shown.
var errInvalid = errors.New("invalid")

// value reads a single value. In faults, want is what a mapping or list should have been, and must what the text should have been.
func value[T any](r *reader, to *T, want, must string, parse func(text string) (T, error)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		text, shown, ok := r.scalar(n, want)
		if !ok {
			return
		}
		parsed, err := parse(text)
		if err != nil {
			r.fault(n, "%s must be %s", shown, must)
			return
		}
		*to = parsed
	}
}

func (r *reader) text(to *string) func(*yaml.Node) {
	return value(r, to, "a text", "", func(text string) (string, error) { return text, nil })
}

// choice reads one of some words.
func choice[T ~string](r *reader, to *T, words ...T) func(*yaml.Node) {
	return func(n *yaml.Node) {
		text, shown, ok := r.scalar(n, "a word")
		if !ok {
			return
		}
		if slices.Contains(words, T(text)) {
			*to = T(text)
			return
		}
		list := make([]string, len(words))
		for i, w := range words {
			list[i] = string(w)
		}
		if near := typo.Nearest(text, list); near != "" {
			r.fault(n, "%s must be one of %s; did you mean %q?", shown, strings.Join(list, ", "), near)
			return
		}
		r.fault(n, "%s must be one of %s", shown, strings.Join(list, ", "))
	}
}

func (r *reader) whether(to *bool) func(*yaml.Node) {
	return value(r, to, "true or false", "true or false", func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, errInvalid
		}
		return text == "true", nil
	})
}

func (r *reader) count(to *int) func(*yaml.Node) {
	return value(r, to, "a number", "a whole number", func(text string) (int, error) { return strconv.Atoi(strings.ReplaceAll(text, "_", "")) })
}

// sizes are the units of bytes.
var sizes = []struct {
	unit string
	size int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}

func (r *reader) bytes(to *int) func(*yaml.Node) {
	return value(r, to, "a number of bytes", "a number of bytes, as in 65536, 64KiB or 16MiB", func(text string) (int, error) {
		size, digits := 1, text
		for _, s := range sizes {
			if before, is := strings.CutSuffix(text, s.unit); is {
				size, digits = s.size, strings.TrimSpace(before)
			}
		}
		number, err := strconv.Atoi(digits)
		if err != nil || number < 0 || number > math.MaxInt/size {
			return 0, errInvalid
		}
		return number * size, nil
	})
}

func (r *reader) fraction(to *float64) func(*yaml.Node) {
	return value(r, to, "a number", "a number", func(text string) (float64, error) {
		number, err := strconv.ParseFloat(text, 64)
		if math.IsNaN(number) || math.IsInf(number, 0) {
			err = errInvalid
		}
		return number, err
	})
}

// period reads a duration that is not negative.
func (r *reader) period(to *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if d, ok := r.duration(n); ok {
			*to = d
		}
	}
}

func (r *reader) duration(n *yaml.Node) (time.Duration, bool) {
	text, shown, ok := r.scalar(n, "a time as in 30s")
	if !ok {
		return 0, false
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		r.fault(n, "%s needs a unit, as in %ss", shown, strings.Trim(shown, `"`))
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.fault(n, "%s must be a time as in 500ms, 30s, 5m or 1h30m", shown)
		return 0, false
	}
	return d, true
}

// list reads a list, or a single value as a list with one item.
func (r *reader) list(n *yaml.Node, read func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		read(n)
		return
	}
	for _, item := range n.Content {
		read(aliased(item))
	}
}

func (r *reader) texts(to *[]string) func(*yaml.Node) { return texts(r, to) }

func texts[T ~string](r *reader, to *[]T) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = nil
		r.list(n, func(item *yaml.Node) {
			if text, _, ok := r.scalar(item, "a text"); ok {
				*to = append(*to, T(text))
			}
		})
	}
}

// words reads a list of words from a fixed set.
func (r *reader) words(to *[]string, allowed ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = nil
		r.list(n, func(item *yaml.Node) {
			var word string
			choice(r, &word, allowed...)(item)
			*to = append(*to, word)
		})
	}
}

func (r *reader) periods(to *[]time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = []time.Duration{}
		r.list(n, func(item *yaml.Node) {
			if d, ok := r.duration(item); ok {
				*to = append(*to, d)
			}
		})
	}
}

// values reads a mapping from names to texts, such as headers.
func (r *reader) values(what string, add func(name, value string)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.named(n, what, func(name string, _, value *yaml.Node) {
			if text, _, ok := r.scalar(value, "a text"); ok {
				add(name, text)
			}
		})
	}
}
