package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A comment that survived a rename begins with the old name, and go doc shows it under the new one.
func TestDocCommentsBeginWithNames(t *testing.T) {
	for _, s := range sourcesOfAll(t) {
		if strings.HasSuffix(s.name, "_test.go") {
			continue
		}
		for _, d := range docComments(s.file) {
			t.Errorf("%s:%d: the comment of %s begins %q; begin it with the name", path.Join(s.dir, s.name), s.line(d.name.Pos()), d.name.Name, d.begins)
		}
	}
}

func TestWrongDocCommentsAreFound(t *testing.T) {
	for source, want := range map[string]int{
		"// A is right.\ntype A int":                                      0,
		"// An A is right, too.\ntype A int":                              0,
		"// B is wrong.\ntype A int":                                      1,
		"// b is hidden.\ntype a int":                                     0,
		"// B is wrong.\nfunc A() {}":                                     1,
		"// A, B: right.\nvar A, B int":                                   0,
		"// Some of them.\nconst (\nA = 1\n// C is wrong.\nB = 2\n)":      1,
		"type A struct {\n// C is wrong.\nB int\n// C is right.\nC int }": 1,
		"type A struct {\n// A heading:\n\nB int }":                       0,
		"type A interface {\n// M is wrong.\nN() }":                       1,
		"type a struct{}\n// N is wrong.\nfunc (a) M() {}":                1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := docComments(file); len(got) != want {
			t.Errorf("%q: found %d comments, want %d", source, len(got), want)
		}
	}
}

// docComment is the comment of an exported name that does not begin with it.
type docComment struct {
	name   *ast.Ident
	begins string
}

func docComments(file *ast.File) []docComment {
	var wrong []docComment
	check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		if doc == nil || len(names) == 0 || !names[0].IsExported() {
			return
		}
		words := strings.Fields(doc.Text())
		for len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") && words[0] != names[0].Name {
			words = words[1:]
		}
		if len(words) > 0 && strings.TrimRight(words[0], ",.:;") != names[0].Name {
			wrong = append(wrong, docComment{names[0], words[0]})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Doc, n.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				doc := n.Doc
				if n.Lparen.IsValid() { // this is the comment of the group
					doc = nil
				}
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					check(firstOf(spec.Doc, doc), spec.Name)
				case *ast.ValueSpec:
					check(firstOf(spec.Doc, doc), spec.Names...)
				}
			}
		case *ast.StructType:
			for _, f := range n.Fields.List {
				check(f.Doc, f.Names...)
			}
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				check(m.Doc, m.Names...)
			}
		}
		return true
	})
	return wrong
}

func firstOf(docs ...*ast.CommentGroup) *ast.CommentGroup {
	for _, d := range docs {
		if d != nil {
			return d
		}
	}
	return nil
}

var (
	// mixedCase is a word of a text that can only be the name of something in a program.
	mixedCase = regexp.MustCompile(`\b(?:[A-Z][a-z0-9]+[A-Z]\w*|[a-z]+[A-Z]\w*)\b`)
	// otherNames are written like names of a program and are none of ours.
	otherNames = []string{"JavaScript", "GitHub", "OpenTelemetry", "macOS", "W3C", "ProcSubset", "ServeMux", "NamedExec", "auditLog", "TestSchedule"}
	// othersCode describes code of other programs.
	othersCode = []string{"internal/letters/golden", "internal/letters", "internal/conformance/layouts"}
)

// A comment that names something names what exists: in the code, also that of other modules that it uses, or in a string.
func TestCommentsNameWhatExists(t *testing.T) {
	all := sourcesOfAll(t)
	known := namesOf(all)
	for _, s := range all {
		if slices.Contains(othersCode, s.dir) {
			continue
		}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for _, name := range mixedCase.FindAllString(c.Text, -1) {
					if !known.has(name) && !slices.Contains(otherNames, name) {
						t.Errorf("%s:%d names %s, which does not exist", path.Join(s.dir, s.name), s.line(c.Pos()), name)
					}
				}
			}
		}
	}
}

// names are the identifiers of files, and all of their strings.
type names struct {
	idents  map[string]bool
	strings string
}

func namesOf(all []source) names {
	known := names{idents: make(map[string]bool)}
	var text strings.Builder
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				known.idents[n.Name] = true
			case *ast.BasicLit:
				if n.Kind == token.STRING && s.dir != "internal/archtest" { // these tests name what is gone
					text.WriteString(n.Value)
					text.WriteByte('\n')
				}
			}
			return true
		})
	}
	known.strings = text.String()
	return known
}

func (n names) has(name string) bool { return n.idents[name] || strings.Contains(n.strings, name) }
