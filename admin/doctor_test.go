package admin

import (
	"os"
	"strings"
	"testing"
)

// Each ailment has an id of its own, a reason, and a place in the documentation.
func TestAilments(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range Ailments() {
		if seen[a.ID] || a.Why == "" || a.Severity.rank() < 0 {
			t.Errorf("ailment %+v is there twice, or not complete", a)
		}
		seen[a.ID] = true
		if !strings.Contains(string(text), "`"+a.ID+"`") {
			t.Errorf("docs/operations.md does not have `%s`", a.ID)
		}
	}
}

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		text            string
		before, atLeast bool // 3.10
	}{
		{"3.9.27", true, false}, {"3.10.0", false, true}, {"3.10.8", false, true}, {"4.0.0-rc.1", false, true}, {"2.8", true, false},
		{"", false, false}, {"none", false, false}, {"25", false, false},
	} {
		r := releaseOf(c.text)
		if r.before(3, 10) != c.before || r.atLeast(3, 10) != c.atLeast {
			t.Errorf("%q: before 3.10 is %v, at least 3.10 is %v, want %v and %v", c.text, r.before(3, 10), r.atLeast(3, 10), c.before, c.atLeast)
		}
	}
}

func TestFindingsAreSortedAndPrinted(t *testing.T) {
	all := Findings{
		{ID: "b", Severity: Info, Object: Object{Kind: "queue", Name: "q"}, Found: "f", Why: "w", Fix: "x"},
		{ID: "c", Severity: Critical, Object: Object{Kind: "queue", Name: "q"}, Found: "f", Why: "w", Fix: "x"},
		{ID: "a", Severity: Warning, Object: Object{Kind: "queue", Name: "q"}, Found: "f", Why: "w", Fix: "x"},
	}
	all.sort()
	want := "critical: queue \"q\": f (c)\n    w\n    fix: x\nwarning: queue \"q\": f (a)\n    w\n    fix: x\ninfo: queue \"q\": f (b)\n    w\n    fix: x\n"
	if got := all.String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if got := len(all.Above(Info)); got != 2 {
		t.Errorf("%d are above info, want 2", got)
	}
	if got := (Findings)(nil).String(); got != "nothing found\n" {
		t.Errorf("got %q for none", got)
	}
}

func TestEverything(t *testing.T) {
	for pattern, want := range map[string]bool{".*": true, "^.*$": true, "": false, "^$": false, "^orders.*": false, `^(rehop\.|x).*`: false} {
		if got := everything(pattern); got != want {
			t.Errorf("%q: got %v, want %v", pattern, got, want)
		}
	}
}
