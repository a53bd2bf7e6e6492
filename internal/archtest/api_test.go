package archtest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files in api with the exported API of the code")

// private directories have no packages for users.
var private = []string{"internal", "cmd", "examples", "integration", "tools", "testdata"}

// TestAPI compares the exported API of each public package, in all modules, with a file in api. Such a
// file makes a change of the API visible in a review: change it with -update, and only on purpose.
func TestAPI(t *testing.T) {
	got := publicAPI(t)
	if len(got) < 10 {
		t.Fatalf("found only %d public packages", len(got))
	}
	dir := filepath.Join(root, "api")
	if *update {
		writeAPI(t, dir, got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := got[filepath.Base(file)]; !ok {
			t.Errorf("%s describes a package that does not exist", file)
		}
	}
	for name, text := range got {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		gotLines, wantLines := strings.Split(text, "\n"), strings.Split(string(want), "\n")
		for i, line := range gotLines {
			if i >= len(wantLines) || line != wantLines[i] {
				t.Errorf("the exported API differs from api/%s at line %d: got %q. If that is intended: go test ./internal/archtest -run TestAPI -update", name, i+1, line)
				break
			}
		}
		if len(gotLines) < len(wantLines) {
			t.Errorf("api/%s has %d lines, the exported API %d", name, len(wantLines), len(gotLines))
		}
	}
}

func writeAPI(t *testing.T, dir string, api map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range api {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// publicAPI is the text of each package's exported API, by the name of its file.
func publicAPI(t *testing.T) map[string]string {
	t.Helper()
	decls := make(map[string][]string)
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(private, d.Name())) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(p)), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := path.Dir(p)
		if pkg == "." {
			pkg = "rehop"
		}
		name := strings.ReplaceAll(pkg, "/", "-") + ".txt"
		for _, text := range exported(t, set, file) {
			if !slices.Contains(decls[name], text) { // files for several systems repeat a declaration
				decls[name] = append(decls[name], text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	api := make(map[string]string)
	for name, all := range decls {
		slices.Sort(all)
		api[name] = strings.Join(all, "\n\n") + "\n"
	}
	return api
}

// exported are the exported declarations of a file, without comments and bodies.
func exported(t *testing.T, set *token.FileSet, file *ast.File) []string {
	t.Helper()
	ast.FileExports(file)
	var all []string
	add := func(node any) {
		var out bytes.Buffer
		if err := format.Node(&out, set, node); err != nil {
			t.Fatal(err)
		}
		all = append(all, out.String())
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				d.Body = nil
				add(d)
			}
		case *ast.GenDecl:
			switch d.Tok {
			case token.TYPE:
				for _, spec := range d.Specs {
					add(&ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{spec}})
				}
			case token.CONST, token.VAR:
				if len(d.Specs) > 0 {
					add(d)
				}
			}
		}
	}
	return all
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return fmt.Sprintf("%T", e)
		}
	}
}

// A user reads go doc before anything else. What it lists is bounded, so that a new ability is a field, a method or a package
// of its own where it can be.
func TestSizeOfGoDoc(t *testing.T) {
	for dir, most := range map[string]int{".": 50, "layout": 12} {
		if n := listed(t, dir); n == 0 || n > most {
			t.Errorf("go doc of %s lists %d entries, want at most %d", dir, n, most)
		}
	}
}

// listed is how many lines go doc has for a package, below its comment.
func listed(t *testing.T, dir string) int {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for _, s := range sources(t) {
		if s.dir == dir && !strings.HasSuffix(s.name, "_test.go") {
			file, err := parser.ParseFile(set, filepath.Join(root, dir, s.name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	pkg, err := doc.NewFromFiles(set, files, path.Join(module, dir))
	if err != nil {
		t.Fatal(err)
	}
	n := len(pkg.Consts) + len(pkg.Vars) + len(pkg.Funcs)
	for _, typ := range pkg.Types {
		n += 1 + len(typ.Consts) + len(typ.Vars) + len(typ.Funcs)
	}
	return n
}
