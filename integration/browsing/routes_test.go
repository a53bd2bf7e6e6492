//go:build !race

package browsing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// routes are the methods and paths that the console serves, as in "GET queues". They are read from its source, so that no page is forgotten.
func routes(t *testing.T) (all []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join("..", "..", "console", "route.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(e ast.Expr) (string, bool) {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			method, found := strings.CutPrefix(e.Sel.Name, "Method")
			return strings.ToUpper(method), found
		case *ast.BasicLit:
			value, err := strconv.Unquote(e.Value)
			return value, err == nil
		case *ast.Ident:
			return map[string]string{"loginPath": "login"}[e.Name], e.Name == "loginPath"
		}
		return "", false
	}
	ast.Inspect(file, func(n ast.Node) bool {
		entry, ok := n.(*ast.CompositeLit)
		if !ok || entry.Type != nil || len(entry.Elts) != 5 {
			return true
		}
		method, isMethod := text(entry.Elts[0])
		path, isPath := text(entry.Elts[1])
		if !isMethod || !isPath {
			t.Errorf("%s: an entry of the table cannot be read; adapt this test to it", files.Position(entry.Pos()))
		}
		all = append(all, method+" "+path)
		return false
	})
	if len(all) < 30 {
		t.Fatalf("got the routes %v, want at least 30", all)
	}
	return all
}
