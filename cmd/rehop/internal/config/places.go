package config

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// places are the positions of the keys of a mapping, for faults that are found later.
type places struct {
	what string
	self *yaml.Node
	keys map[string]*yaml.Node
	// faulty: it could not be read as a whole.
	faulty bool
}

// at returns the position of a key, or of the mapping if the key is missing.
func (p places) at(key string) *yaml.Node {
	if n, ok := p.keys[key]; ok {
		return n
	}
	return p.self
}

// word finds names of Go fields in a text.
var word = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)

// prefix is the beginning of a library's errors that the fault has already.
var prefix = regexp.MustCompile(`^(target: |rehop: config: |rehop: subscription "[^"]*": )`)

// blame reports an error of a library about settings in this mapping, with keys instead of the names of Go fields. names has the keys that
// kebab does not give.
func (r *reader) blame(p places, err error, names map[string]string) {
	for _, one := range parts(err) {
		at := p.self
		text := word.ReplaceAllStringFunc(prefix.ReplaceAllString(one.Error(), ""), func(field string) string {
			key, ok := names[field]
			if !ok {
				key = kebab(field)
			}
			if n, here := p.keys[key]; here && at == p.self {
				at = n
			} else if !here && !ok {
				return field
			}
			return key
		})
		r.fault(at, "%s: %s", p.what, text)
	}
}

// parts returns the errors that were joined to one.
func parts(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			var all []error
			for _, one := range joined.Unwrap() {
				all = append(all, parts(one)...)
			}
			return all
		}
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// kebab returns the key of a field: MessageTTL is message-ttl.
func kebab(field string) string {
	var out strings.Builder
	upper := true
	for i, c := range field {
		isUpper := c >= 'A' && c <= 'Z'
		if isUpper && !upper && i > 0 {
			out.WriteByte('-')
		}
		upper = isUpper
		out.WriteString(strings.ToLower(string(c)))
	}
	return out.String()
}
