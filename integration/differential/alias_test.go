package differential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// aliases are names for those that a broker has made up: the first is called the same on every broker.
type aliases map[string]string

// of returns the alias of a name that begins as those do that are made up; others have none.
func (a aliases) of(prefix, name string) string {
	if !strings.HasPrefix(name, prefix) {
		return name
	}
	if a[name] == "" {
		a[name] = fmt.Sprintf("%s%02d", prefix, len(a))
	}
	return a[name]
}

// in replaces the names in a text.
func (a aliases) in(text string) string {
	for name, alias := range a {
		text = strings.ReplaceAll(text, name, alias)
	}
	return text
}

// names are those with a prefix, in the order of their making.
func (a aliases) names(prefix string) []string {
	names := slices.SortedFunc(maps.Keys(a), func(x, y string) int { return cmp.Compare(a[x], a[y]) })
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}
