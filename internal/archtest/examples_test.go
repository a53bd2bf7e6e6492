package archtest

import (
	"go/doc"
	"slices"
	"strings"
	"testing"
)

// A user of a package begins with an example that runs.
func TestEachPackageHasExample(t *testing.T) {
	runs := make(map[string]bool)
	for _, s := range sourcesOfAll(t) {
		if strings.HasSuffix(s.name, "_test.go") && slices.ContainsFunc(doc.Examples(s.file), func(e *doc.Example) bool { return e.Output != "" }) {
			runs[s.dir] = true
		}
	}
	for _, dir := range publicPackages(t) {
		if !runs[dir] {
			t.Errorf("package %s has no example with an output", dir)
		}
	}
}
