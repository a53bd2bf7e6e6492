package archtest

import (
	"go/ast"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logMethods are the methods of slog.Logger that log.
var logMethods = []string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}

// goName matches what looks like a name of Go code: two words in one, or a package or type with a member.
var goName = regexp.MustCompile(`\b[A-Za-z][a-z0-9]+[A-Z]\w*|\b[A-Za-z]\w*\.[A-Z]\w*`)

// productNames look like names of Go code, and are not.
var productNames = strings.NewReplacer("RabbitMQ", "", "PostgreSQL", "", "MariaDB", "", "OpenID", "", "OpenTelemetry", "")

// TestLogTexts checks the texts with which the program logs. Those who read a log need not know Go.
func TestLogTexts(t *testing.T) {
	texts := 0
	for _, s := range sourcesOfAll(t) {
		if strings.HasSuffix(s.name, "_test.go") || strings.HasPrefix(s.dir, "integration") || strings.HasPrefix(s.dir, "tools") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(logMethods, method.Sel.Name) || !strings.Contains(strings.ToLower(types.ExprString(method.X)), "log") {
				return true
			}
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					literal, ok := n.(*ast.BasicLit)
					if !ok {
						return true
					}
					text, err := strconv.Unquote(literal.Value)
					if err != nil {
						return true // a number
					}
					texts++
					if name := goName.FindString(productNames.Replace(text)); name != "" {
						t.Errorf("%s:%d: the log has %q in %q; write it in words", path.Join(s.dir, s.name), s.line(literal.Pos()), name, text)
					}
					return true
				})
			}
			return true
		})
	}
	if texts < 100 {
		t.Errorf("found only %d texts", texts)
	}
}
