package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// operatorPackages are those whose errors and findings reach operators, by the command or the console.
var operatorPackages = []string{"cmd/rehop", "admin", "console", "outbox", "triage", "topology", "broker/internal", "internal/rabbit", "internal/hosts", "internal/letters"}

// programs are texts for programmers that do not begin with the name of their package: about settings that are checked in
// front of the operator, in the words of rehop.yaml or of a flag.
var programs = []string{
	"on MySQL the transaction needs a method QueryContext",
	"BatchSize %d must be", "MaxBytes %d must be", "RetryMin %v is longer",
	"the method Listen of the Waker",
	"set FailedQueue to the queue",
	"ID is %q, it must be from NewRunID",
	// The command replaces these; see flow.Explain.
	"need the same Config.QueueType", "set ExistingExchange (existing-exchange", "set ExistingQueue (existing-queue",
}

// operatorFiles of the root package have errors that rehop publish returns.
var operatorFiles = []string{"publish.go", "message.go"}

// inSentence is a word with a capital that does not begin a sentence. Names of things of RabbitMQ, or of pages, are like that, too.
var inSentence = regexp.MustCompile(`[a-z,] \(?([A-Z]\w*[a-z]\w*)\b`)

// An operator does not know the names of Go. What the names mean is on the command line and in rehop.yaml, too.
func TestOperatorsReadNoGoNames(t *testing.T) {
	all := sourcesOfAll(t)
	exported := make(map[string]bool) // fields, functions and methods of packages for users
	for _, s := range all {
		if strings.HasSuffix(s.name, "_test.go") || slices.ContainsFunc(strings.Split(s.dir, "/"), func(part string) bool { return slices.Contains(private, part) }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				exported[n.Name.Name] = n.Name.IsExported()
			case *ast.TypeSpec:
				exported[n.Name.Name] = n.Name.IsExported()
			case *ast.Field:
				for _, name := range n.Names {
					exported[name.Name] = name.IsExported()
				}
			}
			return true
		})
	}
	used := make(map[string]bool)
	for _, s := range all {
		root := s.dir == "." && slices.Contains(operatorFiles, s.name)
		if strings.HasSuffix(s.name, "_test.go") || strings.HasPrefix(s.dir, "internal/letters/golden") || !root && !slices.ContainsFunc(operatorPackages, func(p string) bool { return s.dir == p || strings.HasPrefix(s.dir, p+"/") }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(text, " ") || strings.HasPrefix(text, s.file.Name.Name+": ") {
				return true
			}
			for _, p := range programs {
				if strings.Contains(text, p) {
					used[p] = true
					return true
				}
			}
			for _, name := range goNames(text, exported) {
				t.Errorf("%s:%d: %q has the name %s of Go", path.Join(s.dir, s.name), s.line(lit.Pos()), text, name)
			}
			return true
		})
	}
	for _, p := range programs {
		if !used[p] {
			t.Errorf("no text has %q; remove it from programs", p)
		}
	}
}

// terms begin with a capital in English, too.
var terms = []string{"Erlang", "Mermaid", "Queues", "Search", "Audit", "Sneakers", "From", "With"}

// goNames are the names of Go in a text: of mixed case, or with a capital in the middle of a sentence.
func goNames(text string, exported map[string]bool) []string {
	var found []string
	for _, name := range mixedCase.FindAllString(text, -1) {
		if exported[name] {
			found = append(found, name)
		}
	}
	for _, m := range inSentence.FindAllStringSubmatch(text, -1) {
		if exported[m[1]] && !slices.Contains(found, m[1]) && !slices.Contains(terms, m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}
