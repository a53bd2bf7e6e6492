package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// No user can name a type of an internal package, construct it, or find its documentation.
func TestNoInternalTypesInPublicPackages(t *testing.T) {
	t.Parallel()
	l := newLoader()
	for _, dir := range publicPackages(t) {
		importPath := module
		if dir != "." {
			importPath += "/" + dir
		}
		pkg, err := l.Import(importPath)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range internalsOf(pkg) {
			t.Error(f)
		}
	}
}

// The walk finds an internal type wherever a user can meet it.
func TestInternalsAreFound(t *testing.T) {
	t.Parallel()
	inner := types.NewPackage(module+"/internal/inner", "inner")
	fields := []*types.Var{types.NewField(token.NoPos, inner, "V", types.Typ[types.Int], false)}
	hidden := types.NewNamed(types.NewTypeName(token.NoPos, inner, "T", nil), types.NewStruct(fields, nil), nil)
	inner.Scope().Insert(hidden.Obj())
	inner.MarkComplete()
	for name, c := range map[string]struct {
		source string
		want   int
	}{
		"alias":                  {`type A = inner.T`, 1},
		"field":                  {`type A struct{ F inner.T }`, 1},
		"hidden field":           {`type A struct{ f inner.T }`, 0},
		"embedded":               {`type A struct{ *inner.T }`, 1},
		"field of inner struct":  {`type A struct{ F struct{ G []inner.T } }`, 1},
		"method":                 {`type A int; func (A) M(map[string]inner.T) {}`, 1},
		"method of a pointer":    {`type A int; func (*A) M() inner.T { panic(0) }`, 1},
		"hidden method":          {`type A int; func (A) m(inner.T) {}`, 0},
		"promoted from a hidden": {`type h struct{}; func (h) M(inner.T) {}; type A struct{ h }`, 1},
		"interface":              {`type A interface{ M() chan inner.T }`, 1},
		"sealed interface":       {`type A interface{ m(inner.T) }`, 0},
		"defined":                {`type A inner.T`, 1},
		"defined and hidden":     {`type a inner.T; var _ a`, 0},
		"field of a defined":     {`type a inner.T; type A struct{ F a }`, 1},
		"of functions":           {`type A func(...inner.T)`, 1},
		"function":               {`func A(f func() inner.T) {}`, 1},
		"hidden function":        {`func a(inner.T) {}; var _ = a`, 0},
		"variable":               {`var A inner.T`, 1},
		"type parameter":         {`func A[P interface{ inner.T }](P) {}`, 1},
		"through a hidden type":  {`type h struct{ F inner.T }; func A() h { panic(0) }`, 1},
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p.go", "package p\nimport \""+inner.Path()+"\"\nvar _ inner.T\n"+c.source, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		config := types.Config{Importer: only{inner}}
		pkg, err := config.Check(module+"/p", set, []*ast.File{file}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := internalsOf(pkg); len(got) != c.want {
			t.Errorf("%s: got %q, want %d", name, got, c.want)
		}
	}
}

// only imports one package.
type only struct{ *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.Package, nil }

// publicPackages are the directories of all modules that users can import.
func publicPackages(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, s := range sourcesOfAll(t) {
		public := !slices.ContainsFunc(strings.Split(s.dir, "/"), func(part string) bool { return slices.Contains(private, part) })
		if public && !strings.HasSuffix(s.name, "_test.go") && !slices.Contains(dirs, s.dir) {
			dirs = append(dirs, s.dir)
		}
	}
	for _, want := range []string{"admin", "rehopotel", "outbox/outboxpgx"} { // the last two are modules
		if !slices.Contains(dirs, want) {
			t.Fatalf("%s is not among the public packages %q", want, dirs)
		}
	}
	return dirs
}

// loader type-checks the packages of the module from their sources, without function bodies. Of other
// packages outside of the standard library it knows the names alone.
type loader struct {
	set      *token.FileSet
	standard types.Importer
	loaded   map[string]*types.Package
}

func newLoader() *loader {
	set := token.NewFileSet()
	return &loader{set, importer.ForCompiler(set, "gc", nil), make(map[string]*types.Package)}
}

func (l *loader) Import(importPath string) (*types.Package, error) {
	if pkg := l.loaded[importPath]; pkg != nil {
		return pkg, nil
	}
	var pkg *types.Package
	var err error
	first, _, _ := strings.Cut(importPath, "/")
	switch rest, own := strings.CutPrefix(importPath, module); {
	case own:
		pkg, err = l.check(importPath, filepath.Join("..", "..", filepath.FromSlash(rest)))
	case strings.Contains(first, "."):
		pkg = types.NewPackage(importPath, filepath.Base(importPath))
		pkg.MarkComplete()
	default:
		pkg, err = l.standard.Import(importPath)
	}
	l.loaded[importPath] = pkg
	return pkg, err
}

func (l *loader) check(importPath, dir string) (*types.Package, error) {
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	partial := false // it imports another module
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if match, err := build.Default.MatchFile(dir, e.Name()); err != nil || !match {
			continue
		}
		f, err := parser.ParseFile(l.set, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		for _, i := range f.Imports {
			partial = partial || strings.Contains(i.Path.Value, ".") && !strings.HasPrefix(i.Path.Value, `"`+module)
		}
	}
	config := types.Config{Importer: l, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	pkg, err := config.Check(importPath, l.set, files, nil)
	if partial { // what is missing of other modules makes errors
		return pkg, nil
	}
	return pkg, err
}

// internalsOf are the places at which the exported names of a package show a type of an internal one.
func internalsOf(pkg *types.Package) []string {
	w := &walk{pkg: pkg, seen: make(map[types.Type]bool)}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			w.object(o)
		}
	}
	return w.found
}

type walk struct {
	pkg   *types.Package
	seen  map[types.Type]bool // declared types of the package
	found []string
}

func (w *walk) object(o types.Object) {
	at := w.pkg.Path() + "." + o.Name()
	if name, ok := o.(*types.TypeName); ok {
		if alias, ok := name.Type().(*types.Alias); ok {
			w.typ(at, alias.Rhs())
			return
		}
	}
	w.typ(at, o.Type())
}

func (w *walk) typ(at string, t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		w.named(at, t)
	case *types.Pointer:
		w.typ(at, t.Elem())
	case *types.Slice:
		w.typ(at, t.Elem())
	case *types.Array:
		w.typ(at, t.Elem())
	case *types.Chan:
		w.typ(at, t.Elem())
	case *types.Map:
		w.typ(at, t.Key())
		w.typ(at, t.Elem())
	case *types.Signature:
		w.signature(at, t)
	case *types.Struct:
		for f := range t.Fields() {
			if !f.Exported() {
				continue
			}
			if isInternal(f.Pkg()) { // the type is defined as an internal one, whose fields no documentation shows
				w.found = append(w.found, fmt.Sprintf("%s has the field %s of a type of %s, which users cannot find", at, f.Name(), f.Pkg().Path()))
			}
			w.typ(at+"."+f.Name(), f.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				w.typ(at+"."+m.Name(), m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			w.typ(at, e)
		}
	case *types.Union:
		for term := range t.Terms() {
			w.typ(at, term.Type())
		}
	}
}

func (w *walk) signature(at string, s *types.Signature) {
	for p := range s.TypeParams().TypeParams() {
		w.typ(at, p.Constraint())
	}
	for p := range s.Params().Variables() {
		w.typ(at, p.Type())
	}
	for r := range s.Results().Variables() {
		w.typ(at, r.Type())
	}
}

func isInternal(pkg *types.Package) bool {
	return slices.Contains(strings.Split(pkg.Path(), "/"), "internal") && strings.HasPrefix(pkg.Path(), module)
}

func (w *walk) named(at string, t *types.Named) {
	for a := range t.TypeArgs().Types() {
		w.typ(at, a)
	}
	t = t.Origin()
	pkg := t.Obj().Pkg()
	if pkg == nil {
		return
	}
	if isInternal(pkg) {
		w.found = append(w.found, fmt.Sprintf("%s shows %s.%s, a type that users cannot import", at, pkg.Path(), t.Obj().Name()))
		return
	}
	if pkg != w.pkg || w.seen[t] { // other packages are looked at by themselves
		return
	}
	w.seen[t] = true
	at = w.pkg.Path() + "." + t.Obj().Name()
	for p := range t.TypeParams().TypeParams() {
		w.typ(at, p.Constraint())
	}
	if _, isInterface := t.Underlying().(*types.Interface); isInterface {
		w.typ(at, t.Underlying())
		return
	}
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() { // also what embedded types add
		if m.Obj().Exported() {
			w.typ(at+"."+m.Obj().Name(), m.Type())
		}
	}
	w.typ(at, t.Underlying())
}
