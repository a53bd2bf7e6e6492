package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// metaphors are parts of identifiers whose meaning a reader has to guess, and what to write.
var metaphors = []struct{ part, write string }{
	{`look(s|ed|ing|out)?`, "read, poll, check"},
	{`borrow(s|ed|er)?|lend(s|er)?|lent`, "take, transfer"},
	{`patience|patient`, "timeout, wait"},
	{`pulse`, "heartbeat"},
	{`mourn(s|ed|er)?|bury|buried|burial`, "delete, deadLetter"},
	{`bequeath(s|ed)?|heirs?`, "transfer, next"},
	{`mend(s|ed)?`, "repair"},
	{`ailments?`, "check, finding"},
	{`ruled|rulers?`, "byPolicy, policy"},
}

// declaredElsewhere are names of other packages that are used or implemented here.
var declaredElsewhere = []string{"LookPath", "LookupHost", "LookupIP", "LookupEnv", "Lookup"}

func TestIdentifiersArePlain(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(metaphors))
	for i, m := range metaphors {
		patterns[i] = regexp.MustCompile(`^(` + m.part + `)$`)
	}
	for _, s := range sourcesOfAll(t) {
		seen := make(map[string]bool)
		ast.Inspect(s.file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || seen[id.Name] || slices.Contains(declaredElsewhere, id.Name) {
				return true
			}
			seen[id.Name] = true
			for _, part := range partsOf(id.Name) {
				for i, p := range patterns {
					if p.MatchString(part) {
						t.Errorf("%s:%d: the name %s has %q; write: %s", path.Join(s.dir, s.name), s.line(id.Pos()), id.Name, part, metaphors[i].write)
					}
				}
			}
			return true
		})
	}
}

// partsOf are the words of an identifier, in lower case.
func partsOf(name string) []string {
	var parts []string
	letters := []rune(name)
	from := 0
	for i := 1; i <= len(letters); i++ {
		if i == len(letters) || letters[i] == '_' || unicode.IsUpper(letters[i]) && (!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			parts = append(parts, strings.ToLower(strings.Trim(string(letters[from:i]), "_")))
			from = i
		}
	}
	return parts
}

func TestPartsOf(t *testing.T) {
	for name, want := range map[string][]string{
		"look": {"look"}, "lookEvery": {"look", "every"}, "TestLookoutAlone": {"test", "lookout", "alone"},
		"URLOfHTTPServer": {"url", "of", "http", "server"}, "a_look": {"a", "look"}, "outlook": {"outlook"},
	} {
		if got := partsOf(name); !slices.Equal(got, want) {
			t.Errorf("parts of %s: got %q, want %q", name, got, want)
		}
	}
}
