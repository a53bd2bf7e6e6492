package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rehop/rehop/triage"
)

func TestGroups(t *testing.T) {
	store := withIndex(t, 3)
	if err := store.Put(t.Context(), []triage.Message{{ID: "x", Queue: "orders", FailedQueue: "orders.failed", Kind: "timeout", Error: "too slow \x1b[2J"}}); err != nil {
		t.Fatal(err)
	}
	out, _ := runs(t, exitDone, "failed", "groups", "--by", "count")
	lines := strings.Split(out, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "GROUP ") || !strings.Contains(lines[1], " mail ") || !strings.Contains(lines[2], " orders ") {
		t.Errorf("got %q, want a heading, and the group with more messages first", out)
	}
	has(t, lines[1], "open", " 3 ", "the mail server is down")
	out, said := runs(t, exitDone, "failed", "groups", "--limit", "1")
	has(t, out, " orders ")
	has(t, said, "there are more groups; use --limit to list more")
	if strings.Contains(out, "mail") || strings.Contains(out, "\x1b") {
		t.Errorf("got %q, want only the newest group, without control characters", out)
	}
	var views []groupView
	out, said = runs(t, exitDone, "failed", "groups", "--queue", "mail", "--json")
	if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != 1 || views[0].Messages.Failed != 3 || views[0].State != "open" || said != "" {
		t.Errorf("got %q (%v) and %q, want the group of mail", out, err, said)
	}
	for _, filter := range [][]string{{"--state", "resolved,ignored"}, {"--queue", "nobody"}} {
		if out, _ := runs(t, exitDone, append([]string{"failed", "groups"}, filter...)...); out != "none\n" {
			t.Errorf("%q: got %q, want none", filter, out)
		}
	}
	if out, _ := runs(t, exitDone, "failed", "groups", "--queue", "nobody", "--json"); out != "[]\n" {
		t.Errorf("got %q, want an empty list", out)
	}
	for want, args := range map[string][]string{"the states are open, acknowledged": {"--state", "odd"}, "must be time or count": {"--by", "name"}, "must be positive": {"--limit", "0"}, "takes no arguments": {"x"}} {
		_, said := runs(t, exitUsage, append([]string{"failed", "groups"}, args...)...)
		has(t, said, want)
	}
}

func TestGroup(t *testing.T) {
	store := withIndex(t, 3)
	page, err := store.Groups(t.Context(), triage.GroupFilter{})
	if err != nil || len(page.Groups) != 1 {
		t.Fatalf("got %+v, %v, want a group", page, err)
	}
	id := page.Groups[0].ID
	out, _ := runs(t, exitDone, "failed", "group", id)
	has(t, out, "group           "+id+"\n", "state           open\n", "messages        3 failed, 0 kept", "hosts           web-1\n", "versions        1.2\n", "newest error    the mail server is down\n")
	out, _ = runs(t, exitDone, "failed", "group", id, "--state", "acknowledged", "--assignee", "ann", "--note", "waits", "--actor", "bob")
	has(t, out, "state           acknowledged\n", "assignee        ann\n", "note            waits\n")
	out, _ = runs(t, exitDone, "failed", "group", id, "--note", "", "--json")
	var view groupView
	if err := json.Unmarshal([]byte(out), &view); err != nil || view.Note != "" || view.Assignee != "ann" || view.State != "acknowledged" {
		t.Errorf("got %q (%v), want the group without its note", out, err)
	}
	records, err := store.AuditRecords(t.Context(), 0, 10)
	if err != nil || len(records) != 2 || records[1].Actor != "bob" || records[0].Actor == "" || records[0].Actor == "bob" {
		t.Errorf("got %+v, %v, want a record by bob, and one by the user of this machine", records, err)
	}
	_, said := runs(t, exitFailed, "failed", "group", "0123456789abcdef")
	has(t, said, "not in the index; rehop failed groups lists the groups")
	_, said = runs(t, exitFailed, "failed", "group", "0123456789abcdef", "--note", "x")
	has(t, said, "not in the index; rehop failed groups lists the groups")
	for want, args := range map[string][]string{"which id?": {}, "it can be open, acknowledged, resolved or ignored": {id, "--state", "regressed"}, "--actor needs a change": {id, "--actor", "ann"}} {
		_, said := runs(t, exitUsage, append([]string{"failed", "group"}, args...)...)
		has(t, said, want)
	}
	out, _ = runs(t, exitDone, "__complete", "failed", "group", id[:4])
	has(t, out, id+"\tmail: the mail server is down\n")
	out, _ = runs(t, exitDone, "__complete", "failed", "groups", "--state", "")
	has(t, out, "regressed\n")
}
