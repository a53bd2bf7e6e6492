package amqp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %s", c.Name)
		}
		seen[c.Name] = true
		if c.Doc == "" {
			t.Errorf("case %s does not say where its behaviour is documented", c.Name)
		}
	}
	if len(seen) < 250 {
		t.Errorf("got %d cases, want at least 250", len(seen))
	}
}

// A case that leaves at once when it asks for the release would count as passed without a look at the broker.
func TestNoSilentCases(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, name := range files {
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			branch, ok := n.(*ast.IfStmt)
			if !ok || !asksForRelease(branch.Cond) {
				return true
			}
			asked++
			if onlyReturns(branch.Body) {
				t.Errorf("%s: this leaves in silence: if the case does not hold for all releases, its part of the section has to exclude it", positions.Position(branch.Pos()))
			}
			return true
		})
	}
	if asked == 0 {
		t.Error("no case asks for the release by Bench.Since: this test looks for something else")
	}
}

func asksForRelease(condition ast.Expr) (asks bool) {
	ast.Inspect(condition, func(n ast.Node) bool {
		called, ok := n.(*ast.SelectorExpr)
		asks = asks || ok && called.Sel.Name == "Since"
		return true
	})
	return asks
}

func onlyReturns(body *ast.BlockStmt) bool {
	if len(body.List) != 1 {
		return false
	}
	statement, ok := body.List[0].(*ast.ReturnStmt)
	return ok && len(statement.Results) == 0
}

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		of        releases
		version   string
		include   bool
		described string
	}{
		{releases{}, "3.10.8", true, ""},
		{since(release43), "4.3.0", true, "since 4.3"},
		{since(release43), "4.2.9", false, "since 4.3"},
		{since(release43), "4.10.0", true, "since 4.3"},
		{since(release43), "5.0.0", true, "since 4.3"},
		{before(release43), "4.3.6", false, "before 4.3"},
		{before(release43), "3.13.7", true, "before 4.3"},
		{releases{release40, release43}, "3.13.7", false, "since 4.0 and before 4.3"},
		{releases{release40, release43}, "4.2.1", true, "since 4.0 and before 4.3"},
	} {
		have, err := releaseOf(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.of.include(have); got != c.include || c.of.String() != c.described {
			t.Errorf("%+v and %s: got %v, %q, want %v, %q", c.of, c.version, got, c.of, c.include, c.described)
		}
	}
}

// Each release has cases, and each part of a section some release.
func TestParts(t *testing.T) {
	known := []release{{3, 10}, release313, release40, release43}
	for _, s := range sections() {
		for i, p := range s.parts {
			if len(p.cases) == 0 {
				t.Errorf("part %d of %s has no cases", i, s.name)
			}
			if !slices.ContainsFunc(known, p.include) {
				t.Errorf("part %d of %s holds for no release: %s", i, s.name, p.releases)
			}
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		got, want string
		match     bool
	}{
		{"no queue 'q'", "no queue 'q'", true},
		{"no queue 'q' here", "no queue 'q'", false},
		{"no queue 'q' here", "no queue '…' here", true},
		{"no queue 'q' there", "no queue '…' here", false},
		{"no queue 'q'", "…", true},
		{"ab", "ab…ab", false},
	} {
		if matches(c.got, c.want) != c.match {
			t.Errorf("%q as %q: got %v, want %v", c.got, c.want, !c.match, c.match)
		}
	}
}
