// Package archtest checks the structure of the project and its documents: which package may import
// which, that every package has a comment, and that the documents are readable and name what exists.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/rehop/rehop"

// root is the directory of the module.
var root = filepath.Join("..", "..")

// rule is what packages under a path may not import.
type rule struct {
	from   string // path below the module; "." is the root package alone
	forbid string // import path prefix
	except []string
	why    string
}

var rules = []rule{
	{".", module + "/", []string{module + "/layout", module + "/topology", module + "/internal/"}, "the root imports no public sibling except layout and topology"},
	{".", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go, so that none of its types reaches a user"},
	{"layout", "github.com/", nil, "a layout is settings and knows nobody"},
	{"internal/layouts", "github.com/rabbitmq/", nil, "layouts are pure"},
	{"internal/layouts", module + "/internal/rabbit", nil, "layouts are pure"},
	{"internal/layouts", "net", nil, "layouts are pure"},
	{"topology", module + "/", nil, "a topology is a value and knows nobody"},
	{"internal/topologies", module + "/", []string{module + "/topology"}, "it knows plans alone"},
	{"internal/envelope", module + "/", nil, "an envelope knows headers alone"},
	{"internal/rabbit", module + "/layout", nil, "the machinery does not know what it moves"},
	{"internal/rabbit", module + "/internal/layouts", nil, "the machinery does not know what it moves"},
	{"internal/rabbit", module + "/internal/envelope", nil, "the machinery does not know what it moves"},
	{"internal/consume", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go"},
	{"internal/consume", module, []string{module + "/layout", module + "/topology", module + "/internal/"}, "the root makes of deliveries what users see"},
	{"internal/ordering", module, nil, "the protocol is pure: a test drives it on a model of the broker"},
	{"internal/ordering", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go"},
	{"internal/delays", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go"},
	{"internal/delays", module, []string{module + "/topology", module + "/internal/layouts", module + "/internal/topologies", module + "/internal/rabbit"}, "delays know addresses and declarations, and not what waits"},
	{"admin", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go"},
	{"rehoptest", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go"},
	{"target", "github.com/rabbitmq/", nil, "only internal/rabbit sees amqp091-go"},
	{"target", module + "/", []string{module + "/layout", module + "/internal/layouts", module + "/target"}, "a target is a handler as users write them: it knows the root and the longest delay alone"},
	{"broker", "github.com/rabbitmq/", nil, "a broker is not made of a client"},
	{"broker", module, []string{module + "/broker", module + "/internal/descriptors", module + "/internal/hosts", module + "/internal/prompt", module + "/internal/throttle", module + "/internal/wire"}, "a broker serves any client, and knows nothing of rehop"},
	{"dialect", "github.com/", nil, "a dialect knows SQL, and neither drivers nor what it is used for"},
	{"outbox", "github.com/", []string{module + "/", module}, "users bring the driver of their database"},
	{"outbox", module + "/inbox", nil, "either can be used without the other"},
	{"inbox", "github.com/", []string{module + "/", module}, "users bring the driver of their database"},
	{"inbox", module + "/outbox", nil, "either can be used without the other"},
	{"triage", "github.com/", []string{module + "/", module}, "users bring the driver of their database"},
	{"triage", module + "/outbox", nil, "either can be used without the other"},
	{"triage", module + "/inbox", nil, "either can be used without the other"},
	{"admin", module + "/triage", nil, "the index is made of what operators read, and not the reverse"},
	{"internal/headerjson", "github.com/", nil, "it knows values alone"},
	{"internal/sqltext", "github.com/", []string{module + "/dialect"}, "it writes SQL and runs none"},
	{"internal/jsonobject", "github.com/", nil, "it knows JSON alone"},
	{"internal/letters", "github.com/rabbitmq/", nil, "it reads messages as values, and does no I/O"},
	{"internal/letters", module + "/", []string{module + "/layout", module + "/internal/envelope", module + "/internal/jsonobject", module + "/internal/layouts", module + "/internal/letters"}, "it reads messages as values, and does no I/O"},
	{"internal/letters", "net", []string{"net/url"}, "it reads messages as values, and does no I/O"},
	{"internal/hosts", module, nil, "it knows names alone"},
	{"internal/prompt", module, nil, "it knows connections alone"},
	{"internal/throttle", module, nil, "it knows addresses and names of users alone"},
	{"console", module + "/", []string{module + "/admin", module + "/topology", module + "/triage", module + "/dialect", module + "/outbox", module + "/internal/headerjson", module + "/internal/hosts", module + "/internal/throttle"}, "the console shows what packages admin and triage know, and does what they can do"},
	{"internal/wire", "github.com/rabbitmq/", nil, "the codec stands alone"},
	{"internal/wire", module, nil, "the codec stands alone"},
}

// source is a parsed Go file.
type source struct {
	dir   string // below the module's root
	name  string
	other bool // it belongs to another module
	file  *ast.File
	set   *token.FileSet
}

func (s source) line(pos token.Pos) int { return s.set.Position(pos).Line }

// sources are the files of the root module.
func sources(t *testing.T) []source {
	t.Helper()
	var own []source
	for _, s := range sourcesOfAll(t) {
		if !s.other {
			own = append(own, s)
		}
	}
	return own
}

// sourcesOfAll are the files of all modules.
func sourcesOfAll(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found only %d Go files", len(all))
	}
	return all
}

// parsed parses every file once. It reads the files itself, because a test that asks the go command is cached without regard to them.
var parsed = sync.OnceValues(func() (all []source, err error) {
	modules := make(map[string]bool) // directories that belong to another module
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p == root {
				return nil
			}
			if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
			_, err := os.Stat(filepath.Join(p, "go.mod"))
			modules[p] = err == nil || modules[filepath.Dir(p)]
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(p))
		all = append(all, source{dir: filepath.ToSlash(rel), name: filepath.Base(p), other: modules[filepath.Dir(p)], file: f, set: set})
		return err
	})
	return all, err
})

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.name, "_test.go") {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			for _, r := range rules {
				if applies(r, s.dir) && forbids(r, imported) {
					t.Errorf("%s imports %s: %s", path.Join(s.dir, s.name), imported, r.why)
				}
			}
		}
	}
}

func applies(r rule, dir string) bool {
	return dir == r.from || r.from != "." && strings.HasPrefix(dir, r.from+"/")
}

func forbids(r rule, imported string) bool {
	if !strings.HasPrefix(imported, r.forbid) {
		return false
	}
	for _, e := range r.except {
		if strings.HasPrefix(imported, e) {
			return false
		}
	}
	return true
}

func TestPackageComments(t *testing.T) {
	commented := make(map[string]bool)
	for _, s := range sources(t) {
		if strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		if _, ok := commented[s.dir]; !ok {
			commented[s.dir] = false
		}
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command " + path.Base(s.dir) + " "
		}
		if doc := s.file.Doc; doc != nil && strings.HasPrefix(doc.Text(), want) {
			commented[s.dir] = true
		}
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("package in %s has no comment that begins %q or, if it is a program, %q", dir, "Package …", "Command …")
		}
	}
}

func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function", path.Join(s.dir, s.name))
			}
		}
	}
}
