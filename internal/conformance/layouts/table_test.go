package layouts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/conformance/amqp"
	"github.com/rehop/rehop/internal/conformance/layouts"
)

const root = "../../.."

var tablePages = []string{"docs/topology.md", "docs/design/layouts.md"}

var quoted = regexp.MustCompile("`([^`]+)`")

// shown are the names of the tests that the tables of a page name, by where they stand.
func shown(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	column := -1
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 3 {
			column = -1
			continue
		}
		for i, cell := range cells {
			if strings.TrimSpace(cell) == "shown by" {
				column = i
			}
		}
		if column < 0 || column >= len(cells) {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[column], -1) {
			names[name[1]] = true
		}
	}
	return names
}

// The pages list which test shows what. All of these tests exist, and no case of the suite is left out.
func TestTable(t *testing.T) {
	cases := make(map[string]bool)
	for _, c := range layouts.Cases() {
		if cases[c.Name] {
			t.Errorf("two cases are named %s", c.Name)
		}
		cases[c.Name] = true
	}
	brokers := make(map[string]bool)
	for _, c := range amqp.Cases() {
		brokers[c.Name] = true
	}
	named := make(map[string]bool)
	for _, page := range tablePages {
		names := shown(t, page)
		if len(names) == 0 {
			t.Errorf("%s names no tests", page)
		}
		for name := range names {
			named[name] = true
			where, test, elsewhere := strings.Cut(name, ": ")
			switch {
			case !elsewhere && cases[name], where == "amqp" && brokers[test]:
			case elsewhere && where != "amqp" && hasTest(t, where, test):
			default:
				t.Errorf("%s names the test %q, which does not exist", page, name)
			}
		}
	}
	for name := range cases {
		if !named[name] {
			t.Errorf("%v do not name the case %s", tablePages, name)
		}
	}
}

// hasTest reports whether a directory has a Go test of this name.
func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == test {
				return true
			}
		}
	}
	return false
}
