package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/triage"
)

func TestAudit(t *testing.T) {
	store := withIndex(t, 0)
	if out, _ := runs(t, exitDone, "audit", "ls"); out != "none\n" {
		t.Errorf("got %q, want none", out)
	}
	if out, _ := runs(t, exitDone, "audit", "ls", "--json"); out != "[]\n" {
		t.Errorf("got %q, want an empty list", out)
	}
	if out, _ := runs(t, exitDone, "audit", "verify"); out != "the audit is empty\n" {
		t.Errorf("got %q, want that it is empty", out)
	}
	for i := range 3 {
		if _, err := store.Audit(t.Context(), triage.Entry{Actor: "ann\x1b", Action: "test", Subject: fmt.Sprint("s", i), Details: i}); err != nil {
			t.Fatal(err)
		}
	}
	out, said := runs(t, exitDone, "audit", "ls", "--limit", "2")
	lines := strings.Split(out, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "3 ") || !strings.Contains(lines[1], `ann\u001b  test    s2       2`) {
		t.Errorf("got %q, want the two newest records", out)
	}
	has(t, said, "there are more records; list them with --before 2 or --limit")
	out, said = runs(t, exitDone, "audit", "ls", "--before", "2", "--json")
	var views []recordView
	if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != 1 || views[0].Subject != "s0" || said != "" {
		t.Errorf("got %q, %v and %q, want the first record", out, err, said)
	}
	out, _ = runs(t, exitDone, "audit", "verify")
	has(t, out, "the audit is intact: 3 records\nhead 3:")
	_, head, _ := strings.Cut(strings.TrimSpace(out), "head ")
	runs(t, exitDone, "audit", "verify", "--head", head)
	out, _ = runs(t, exitDone, "audit", "verify", "--json")
	has(t, out, `"intact": true`, `"head": "`+head+`"`)

	for want, args := range map[string][]string{"must be positive": {"ls", "--limit", "0"}, "must not be negative": {"ls", "--before", "-1"}} {
		_, said := runs(t, exitUsage, append([]string{"audit"}, args...)...)
		has(t, said, want)
	}
	for _, bad := range []string{"x", "3", "3:", "3:xyz", "0:00", "-1:00"} {
		_, said := runs(t, exitUsage, "audit", "verify", "--head="+bad)
		has(t, said, "is not a head: write it as rehop audit verify prints it")
	}

	// Records at the end are missed only with a head.
	change(t, "DELETE FROM rehop_triage_audit WHERE number = 3")
	runs(t, exitDone, "audit", "verify")
	_, said = runs(t, exitFound, "audit", "verify", "--head", head)
	has(t, said, "the audit was tampered with: it ends with record 2, and a head of record 3 was kept")
	change(t, "UPDATE rehop_triage_audit SET actor = subject WHERE number = 2")
	out, said = runs(t, exitFound, "audit", "verify")
	has(t, said, "the audit was tampered with: record 2 was changed")
	if out != "" {
		t.Errorf("got %q, want no head of an audit that is wrong", out)
	}
	out, _ = runs(t, exitFound, "audit", "verify", "--json")
	has(t, out, `"intact": false`, `"problem": "`, `"head": "1:`)
}

// change executes a statement in the index.
func change(t *testing.T, statement string) {
	t.Helper()
	source, err := database.Parse("sqlite:" + defaultIndex())
	if err != nil {
		t.Fatal(err)
	}
	db, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
