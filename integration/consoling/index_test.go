//go:build !race

package consoling

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// later is what a form has that was made after all messages of a test had failed.
const later = "2100-01-01T00:00:00Z"

// Each change leaves exactly one record with the user, and what is refused leaves none.
func TestEveryChangeIsRecordedOnce(t *testing.T) {
	x := newIndexed(t)
	x.put(some(5)...)
	group, refs := x.onlyGroup().ID, x.refs()
	plan, _ := x.post("/plan", url.Values{"query": {url.QueryEscape("group:" + group)}, "scope": {"all"}, "do": {"canary"}}, 200)
	x.has(plan, `id="count">5<`, `name="canary" value="1" checked`)
	_, page := x.post("/start", with(fields(plan), "canary", "1"), 303)
	run := strings.TrimPrefix(page, "run?id=")
	discard, _ := x.post("/plan", url.Values{"pick": refs[:2], "do": {"discard"}}, 200)
	x.has(discard, `id="count">2<`, "Type 2 to confirm")
	again := with(fields(plan), "id", "") // as another form
	before := x.changes()
	if before != 1 {
		t.Errorf("a start has left %d records, want 1", before)
	}
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		want   int64
		action string
	}{
		{"/group", url.Values{"id": {group}, "state": {"acknowledged"}, "assignee": {"bob"}, "note": {"a\r\nb"}}, 303, 1, "group.set"},
		{"/group", url.Values{"id": {group}, "state": {"acknowledged"}}, 303, 0, ""}, // nothing is changed
		{"/group", url.Values{"id": {group}, "state": {"regressed"}}, 400, 0, ""},
		{"/group", url.Values{"id": {group}, "note": {"\xff"}}, 400, 0, ""},
		{"/group", url.Values{"id": {group}}, 400, 0, ""},
		{"/group", url.Values{"id": {"none"}, "state": {"open"}}, 404, 0, ""},
		{"/run", url.Values{"id": {run}, "state": {"paused"}}, 303, 1, "run.paused"},
		{"/run", url.Values{"id": {run}, "state": {"running"}}, 303, 1, "run.running"},
		{"/run", url.Values{"id": {run}, "state": {"stopped"}}, 303, 1, "run.stopped"},
		{"/run", url.Values{"id": {run}, "state": {"running"}}, 409, 0, ""},
		{"/run", url.Values{"id": {run}, "state": {"done"}}, 400, 0, ""},
		{"/run", url.Values{"id": {"none"}, "state": {"paused"}}, 404, 0, ""},
		{"/start", fields(discard), 400, 0, ""}, // the number is not typed
		{"/start", with(fields(discard), "typed", "3"), 400, 0, ""},
		{"/start", with(fields(discard), "typed", "2"), 303, 1, "run.start"},
		{"/start", with(again, "rate", "x"), 400, 0, ""},
		{"/start", with(again, "stop", "101"), 400, 0, ""},
		{"/start", with(again, "at", "x"), 400, 0, ""},
		{"/start", with(again, "query", "state%3Adiscarded"), 409, 0, ""}, // nothing to do
		{"/start", with(again, "query", "state%3Anone"), 400, 0, ""},
		{"/start", with(again, "to", "rehop.triage"), 400, 0, ""},
		{"/start", with(again, "to", "orders.failed"), 400, 0, ""},
		{"/start", with(again, "rate", "50", "stop", "12.5", "to", "other"), 303, 1, "run.start"},
		{"/start", fields(plan), 303, 0, ""}, // it was sent before
		{"/plan", url.Values{"query": {"x"}, "scope": {"all"}, "do": {"drop"}}, 400, 0, ""},
		{"/plan", url.Values{"do": {"replay"}, "scope": {"selected"}}, 400, 0, ""},
		{"/plan", url.Values{"do": {"keep"}, "scope": {"all"}, "query": {""}}, 200, 0, ""},
	} {
		before := x.changes()
		x.post(c.path, c.form, c.status)
		if got := x.changes() - before; got != c.want {
			t.Errorf("%s %v: got %d records, want %d", c.path, c.form, got, c.want)
		}
		if c.want == 1 {
			last, err := x.store.AuditRecords(t.Context(), 0, 1)
			if err != nil || last[0].Action != c.action || last[0].Actor != "operator <ann>" || !strings.Contains(string(last[0].Details), `"from":"192.0.2.1"`) {
				t.Errorf("%s: got the record %+v, %v, want %s by the user, and from where", c.path, last, err, c.action)
			}
		}
	}
	if g := x.onlyGroup(); g.State != triage.Acknowledged || g.Assignee != "bob" || g.Note != "a\nb" {
		t.Errorf("got the group %+v", g)
	}
	runs, err := x.store.Runs(t.Context(), triage.RunFilter{})
	if err != nil || len(runs) != 3 || runs[0].Rate != 50 || runs[0].StopAbove != 0.125 || runs[0].To != "other" {
		t.Errorf("got the runs %+v, %v", runs, err)
	}
	x.has(x.get("/run?id="+run), "stopped by operator <ann>", "planned", "when more than 10 % fail again")
	x.has(x.get("/runs"), "canary", "selected messages")
	x.has(x.get("/audit?verify=1"), "Every record follows from the one before it", "group.set", "operator &lt;ann&gt;", "run.start")
}

// A run has the messages that were counted, and no others: neither those that fail after the confirmation, nor those that a sweep finds, which have failed
// before. Clocks of hosts that report failures may be wrong.
func TestRunIsWhatWasConfirmed(t *testing.T) {
	for name, c := range map[string]struct{ counted, later time.Duration }{
		"fails later": {-time.Minute, time.Second}, "found by a sweep": {-time.Minute, -30 * time.Minute}, "a clock is ahead": {5 * time.Minute, 6 * time.Minute}, "a clock is behind": {-50 * time.Minute, -49 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndexed(t)
			counted, later := some(3), some(50)
			for i := range counted {
				counted[i].FailedAt = time.Now().Add(c.counted)
			}
			for i := range later {
				later[i].ID, later[i].FailedAt = fmt.Sprint("later", i), time.Now().Add(c.later)
			}
			x.put(counted...)
			plan, _ := x.post("/plan", url.Values{"query": {"refused+since%3A1h"}, "scope": {"all"}, "do": {"discard"}}, 200)
			x.has(plan, `id="count">3<`)
			x.put(later...)
			_, page := x.post("/start", with(fields(plan), "typed", "3"), 303)
			x.has(x.get("/"+page), "0 of 3", "since:1h")
		})
	}
	x := newIndexed(t)
	x.put(some(1)...)
	if w := ask(x.console, "operator", "POST", "/start", url.Values{"query": {"refused"}, "do": {"replay"}, "at": {time.Now().Format(time.RFC3339Nano)}}); w.Code != 400 {
		t.Errorf("without the time of the count: got %d, want 400", w.Code)
	}
}

// A form that is sent twice starts one run, and the answer is the same.
func TestFormSentTwice(t *testing.T) {
	x := newIndexed(t)
	x.put(some(3)...)
	only := func(what, first, second string) {
		t.Helper()
		runs, err := x.store.Runs(t.Context(), triage.RunFilter{})
		if err != nil || len(runs) == 0 || first != second || first != "run?id="+runs[0].ID {
			t.Fatalf("%s: got %q and %q of the runs %+v, %v, want the same run", what, first, second, runs, err)
		}
	}
	twice := func(path string, form url.Values) (string, string) {
		_, first := x.post(path, form, 303)
		_, second := x.post(path, form, 303)
		return first, second
	}
	plan, _ := x.post("/plan", url.Values{"query": {"refused"}, "scope": {"all"}, "do": {"replay"}}, 200)
	first, second := twice("/start", fields(plan))
	only("a query", first, second)
	plan, _ = x.post("/plan", url.Values{"pick": x.refs()[:2], "do": {"discard"}}, 200)
	third, fourth := twice("/start", with(fields(plan), "typed", "2"))
	only("selected messages", third, fourth)
	preview, _ := x.post("/edit", fields(x.get("/edit?ref="+x.refs()[0])), 200)
	fifth, sixth := twice("/resend", fields(preview))
	only("an edit", fifth, sixth)
	if n := x.changes(); n != 3 {
		t.Errorf("got %d records in the audit, want one of each run", n)
	}
}

// Every role gets what it may use, also when there is an index, and nobody changes anything with a console that is read-only.
func TestRolesOfIndex(t *testing.T) {
	x := newIndexed(t)
	x.put(some(1)...)
	group, ref := x.onlyGroup().ID, x.refs()[0]
	run, err := x.store.StartRun(t.Context(), triage.RunPlan{Action: triage.ActionReplay, Refs: []string{ref}, Actor: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	readOnly := x.with(func(o *console.Options) { o.ReadOnly = true })
	ranks := map[string]int{"": 0, "viewer": 1, "operator": 2, "admin": 3}
	for _, c := range []struct {
		method, target string
		form           url.Values
		needs          string
		status         int
	}{
		{"GET", "/groups", nil, "viewer", 200}, {"GET", "/group?id=" + group, nil, "viewer", 200}, {"GET", "/search?q=refused", nil, "viewer", 200}, {"GET", "/found?ref=" + ref, nil, "viewer", 200},
		{"GET", "/found.body?ref=" + ref, nil, "viewer", 200}, {"GET", "/found.export?format=csv", nil, "viewer", 200}, {"GET", "/runs", nil, "viewer", 200}, {"GET", "/run?id=" + run.ID, nil, "viewer", 200}, {"GET", "/audit", nil, "admin", 200},
		{"GET", "/edit?ref=" + ref, nil, "operator", 200},
		{"POST", "/group", url.Values{"id": {group}, "note": {"x"}}, "operator", 303}, {"POST", "/plan", url.Values{"pick": {ref}, "do": {"replay"}}, "operator", 200},
		{"POST", "/start", url.Values{"pick": {ref}, "do": {"replay"}, "upto": {later}}, "operator", 303}, {"POST", "/run", url.Values{"id": {run.ID}, "state": {"paused"}}, "operator", 303},
		{"POST", "/edit", url.Values{"ref": {ref}}, "operator", 409}, {"POST", "/resend", url.Values{"ref": {ref}}, "operator", 409}, // without the base of the edit
	} {
		for role, rank := range ranks {
			for _, shown := range []*console.Console{x.console, readOnly} {
				want := c.status
				switch {
				case rank < ranks[c.needs]:
					want = 403
				case shown == readOnly && c.needs == "operator":
					want = 403
				}
				w := ask(shown, role, c.method, c.target, c.form)
				if w.Code != want {
					t.Errorf("%s %s as %q, read-only %v: got %d, want %d", c.method, c.target, role, shown == readOnly, w.Code, want)
				}
				if want == 200 && c.method == "GET" && (rank < ranks["operator"] || shown == readOnly) {
					x.lacks(w.Body.String(), `action="plan"`, `action="group"`, `action="run"`, `href="edit`)
				}
				if want == 200 && strings.Contains(w.Body.String(), `href="./audit"`) != (role == "admin") && strings.HasPrefix(w.Body.String(), "<!doctype") {
					t.Errorf("%s as %q: only admins see the link to the audit", c.target, role)
				}
			}
			for _, method := range []string{"PUT", "DELETE"} {
				path, _, _ := strings.Cut(c.target, "?")
				if w := ask(x.console, role, method, path, nil); w.Code != 405 {
					t.Errorf("%s %s as %q: got %d, want 405", method, path, role, w.Code)
				}
			}
		}
	}
}

// Without an index, or while it cannot be used, the pages report that, and the navigation does not have them.
func TestWithoutIndex(t *testing.T) {
	x := newIndexed(t)
	for want, open := range map[string]func(context.Context) (*triage.Store, error){
		"This console has no index of failed messages": nil,
		"the index is being opened":                    func(context.Context) (*triage.Store, error) { return nil, errors.New("the index is being opened") },
	} {
		c := x.with(func(o *console.Options) { o.Triage = open })
		for _, target := range []string{"/groups", "/group?id=x", "/search?q=a", "/search?q=a:", "/found?ref=x", "/found.body?ref=x", "/found.export?format=csv", "/edit?ref=x", "/runs", "/run?id=x", "/audit"} {
			w := ask(c, "admin", "GET", target, nil)
			if x.has(w.Body.String(), want); w.Code != 404 && w.Code != 503 {
				t.Errorf("%s: got %d, want 404 or 503", target, w.Code)
			}
			x.lacks(w.Body.String(), `href="./groups"`, `href="./search"`, `href="./runs"`, `href="./audit"`)
		}
	}
	x.has(x.get("/groups"), "No group matches", `href="./groups"`, `href="./search"`, `href="./runs"`, `href="./audit"`)
	x.has(x.get("/search"), "0 messages match")
	x.has(x.get("/runs"), "No run was started yet")
	x.has(x.get("/audit?verify=1"), "Nothing is recorded")
	for target, status := range map[string]int{"/group?id=x": 404, "/group": 404, "/found?ref=x": 404, "/run?id=x": 404, "/groups?state=x": 400, "/groups?order=x": 400, "/groups?in=%25zz": 400, "/audit?before=x": 400, "/groups?after=x": 400, "/search?after=%00.1": 400,
		"/found.export": 400, "/found.export?format=xml": 400, "/found.export?format=csv&q=a:": 400} {
		if w := ask(x.console, "admin", "GET", target, nil); w.Code != status {
			t.Errorf("%s: got %d %s, want %d", target, w.Code, w.Body, status)
		}
	}
}

// An export has every message that matches, with its text, and a spreadsheet runs none of it.
func TestExportFound(t *testing.T) {
	x := newIndexed(t)
	const n = 450 // three pages
	all := some(n)
	for i := range all {
		all[i].Error, all[i].Body = "=cmd refused", fmt.Appendf(nil, "body <%d>", i)
	}
	all[7].Body = []byte{0xff, 0}
	all[8].Error = "another"
	x.put(all...)
	target := "/found.export?" + url.Values{"q": {"refused"}}.Encode() + "&format="
	x.has(x.get("/search?q=refused"), "found.export?format=jsonl&q=refused", "found.export?format=csv&q=refused")
	seen := make(map[string]bool)
	for line := range strings.Lines(x.get(target + "jsonl")) {
		var m struct{ ID, State, Group, Error, Body, Body_base64 string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("got line %q, %v, want JSON", line, err)
		}
		if seen[m.ID] || m.State != "failed" || m.Group == "" || m.Error != "=cmd refused" || !strings.HasPrefix(m.Body, "body <") && m.Body_base64 != "/wA=" {
			t.Errorf("got %+v, seen before %v, want all of a message, once", m, seen[m.ID])
		}
		seen[m.ID] = true
	}
	rows, err := csv.NewReader(strings.NewReader(x.get(target + "csv"))).ReadAll()
	if err != nil || len(rows) != n || len(seen) != n-1 {
		t.Fatalf("got %d lines of JSON and %d rows, %v, want %d messages and a heading", len(seen), len(rows), err, n-1)
	}
	for _, row := range rows[1:] {
		if !seen[row[7]] || row[12] != "'=cmd refused" {
			t.Errorf("got %q, want a message that is in the other export, and no formula", row)
		}
		delete(seen, row[7])
	}
}

// An export that the index cannot finish is an error, or is cut if a part of it was sent.
func TestExportFoundFails(t *testing.T) {
	for size, cut := range map[int]bool{10: false, 50_000: true} {
		x := newIndexed(t)
		all := some(250)
		for i := range all {
			all[i].Body = bytes.Repeat([]byte("x"), size)
		}
		x.put(all...)
		var pages atomic.Int32
		c := x.with(func(o *console.Options) {
			o.Triage = func(context.Context) (*triage.Store, error) {
				if pages.Add(1) == 2 {
					return nil, errors.New("the disk is gone")
				}
				return x.store, nil
			}
		})
		ended := func() (cause any) {
			defer func() {
				if aborted := recover(); aborted != nil {
					cause = aborted
				}
			}()
			return ask(c, "viewer", "GET", "/found.export?q=refused&format=csv", nil).Code
		}()
		if want := any(http.StatusServiceUnavailable); !cut && ended != want || cut && ended != http.ErrAbortHandler {
			t.Errorf("bodies of %d bytes: got %v, want that the connection is cut %v", size, ended, cut)
		}
	}
}

// Lists have pages, and a query that is wrong has the place and what is allowed.
func TestListsAndQueries(t *testing.T) {
	x := newIndexed(t)
	all := some(120)
	for i := range all {
		all[i].Error, all[i].Queue = "cause "+strings.Repeat("x", i+1), fmt.Sprint("q", i%2)
		all[i].FailedQueue = all[i].Queue + ".failed"
	}
	x.put(all...)
	next := regexp.MustCompile(`href="([^"]*)">Next page`)
	for first, rows := range map[string]int{"/groups": 120, "/groups?order=count": 120, "/groups?in=q1&state=open": 60, "/search?q=cause": 120, "/search?q=queue%3Aq1": 60} {
		n, pages := 0, 0
		for target := first; target != "" && pages < 10; pages++ {
			text := x.get(target)
			n += strings.Count(text, `<th scope="row"`)
			target = ""
			if m := next.FindStringSubmatch(text); m != nil {
				target = "/" + html.UnescapeString(m[1])
			}
		}
		if n != rows {
			t.Errorf("%s: got %d rows on %d pages, want %d", first, n, pages, rows)
		}
	}
	x.has(x.get("/search?q=cause"), "120 messages match; shown: 50", "header.tenant:t-7")
	w := ask(x.console, "viewer", "GET", "/search?q="+url.QueryEscape("ü colour:red <b>"), nil)
	if check(t, "wrong query", w.Body.String()); w.Code != 400 {
		t.Errorf("got %d, want 400", w.Code)
	}
	x.has(w.Body.String(), "At character 3", "the fields are queue, kind", "<u><bdi>c</bdi></u>")
	if w := ask(x.console, "viewer", "GET", "/search?q=%ff", nil); w.Code != 400 || !utf8.Valid(w.Body.Bytes()) {
		t.Errorf("a query that is not UTF-8: got %d %s", w.Code, w.Body)
	}
}

// nasty are texts that a stranger can send.
var nasty = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "user\u202egnp.exe\u2066\u2069", "zero\u200bwidth", "\xff\xfe", "\x1b[2J\x00\x07", "{{.}}", "javascript:alert(1)", "9223372036854775807", "-->]]>"}

// safe fails the test if a page has a hostile text as more than text.
func (x *indexed) safe(where, text string) {
	x.t.Helper()
	if !utf8.ValidString(text) {
		x.t.Errorf("%s: the page is not UTF-8", where)
	}
	for _, bad := range []string{"<script>", "<img src=x", "\u202e", "\u2066", "\u2069", "\u200b", "\x1b", "\x00", "\x07", `href="javascript`} {
		if strings.Contains(text, bad) {
			x.t.Errorf("%s: the page has %q", where, bad)
		}
	}
}

// Texts of strangers are shown as text on all pages, whatever field they are in.
func TestHostileTextsInIndex(t *testing.T) {
	x := newIndexed(t)
	text := strings.Join(nasty, " ")
	headers := map[string]any{"large": int64(1<<63 - 1), "bytes": []byte(text), "text": text, "nested": map[string]any{"<script>": []any{"\u202e"}}}
	m := triage.Message{ID: text, Queue: text, FailedQueue: text, Exchange: text, Key: text, Headers: headers, Body: []byte(text), ContentType: text, ContentEncoding: "", CorrelationID: text, ReplyTo: text,
		Type: text, AppID: text, Kind: text, Error: text, Stack: text, Host: text, Version: text, Attempts: 1, FailedAt: time.Now().Add(-time.Minute)}
	plain := m
	plain.Body = []byte(strings.ToValidUTF8(text, "?") + "\r\n\r \t")
	plain.ID, plain.Queue = "plain", "plain"
	x.put(m, plain)
	targets := []string{"/groups", "/groups?in=" + url.QueryEscape(url.QueryEscape(text)), "/search", "/search?q=script", "/runs", "/audit?verify=1"}
	page, err := x.store.Groups(t.Context(), triage.GroupFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range page.Groups {
		x.post("/group", url.Values{"id": {g.ID}, "note": {strings.ToValidUTF8(nasty[0]+nasty[1], "?")}, "state": {"ignored"}}, 303)
		targets = append(targets, "/group?id="+g.ID)
	}
	for _, ref := range x.refs() {
		targets = append(targets, "/found?ref="+ref, "/found?ref="+ref+"&view=hex", "/found?ref="+ref+"&view=text")
		plan, _ := x.post("/plan", url.Values{"pick": {ref}, "do": {"replay"}}, 200)
		x.safe("plan", plan)
		_, run := x.post("/start", with(fields(plan), "to", nasty[0]+nasty[2]), 303)
		targets = append(targets, "/"+run)
	}
	plan, _ := x.post("/plan", url.Values{"query": {url.QueryEscape(`script "` + nasty[2] + `"`)}, "scope": {"all"}, "do": {"discard"}}, 200)
	x.safe("plan of a query", plan)
	_, run := x.post("/start", with(fields(plan), "typed", fields(plan).Get("count")), 303)
	targets = append(targets, "/"+run)
	for _, target := range targets {
		got := x.get(target)
		if x.safe(target, got); !strings.Contains(target, "verify") {
			x.lacks(got, "(no id)")
		}
	}
	for _, ref := range x.refs() {
		m, err := x.store.Message(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if body := x.get("/found.body?ref=" + ref); body != string(m.Body) {
			t.Errorf("the download has %q, want %q", body, m.Body)
		}
		w := ask(x.console, "operator", "GET", "/edit?ref="+ref, nil)
		x.safe("edit", w.Body.String())
		if !utf8.Valid(m.Body) {
			if x.has(w.Body.String(), "not UTF-8, which a browser cannot edit"); w.Code != 409 {
				t.Errorf("got %d, want 409", w.Code)
			}
			continue
		}
		preview, _ := x.post("/edit", fields(w.Body.String()), 200)
		x.safe("preview", preview)
		if n := strings.Count(preview, "Not changed."); n != 2 {
			t.Errorf("a form that was not changed has changes:\n%s", preview)
		}
	}
}

// At another path all links lead to pages of the console.
func TestBasePathOfIndex(t *testing.T) {
	x := newIndexed(t, func(o *console.Options) { o.Base = "/a/b/" })
	x.put(some(60)...)
	if _, err := x.store.StartRun(t.Context(), triage.RunPlan{Action: triage.ActionReplay, Refs: x.refs(), Actor: "bob"}); err != nil {
		t.Fatal(err)
	}
	links, seen := regexp.MustCompile(`href="([^"#]+)"`), map[string]bool{}
	found := map[string]bool{}
	for next := []string{"/a/b/groups", "/a/b/runs", "/a/b/audit"}; len(next) > 0; next = next[1:] {
		target := next[0]
		at, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		// One message stands for all, and pages of the broker are tested elsewhere.
		kind := at.Path + "?" + strings.Join(slices.Sorted(maps.Keys(at.Query())), "&")
		if name := strings.TrimPrefix(at.Path, "/a/b/"); seen[kind] || !slices.Contains([]string{"groups", "group", "search", "found", "found.body", "edit", "runs", "run", "audit"}, name) {
			if !strings.HasPrefix(at.Path, "/a/b/") {
				t.Errorf("a link leads to %s", target)
			}
			continue
		} else {
			seen[kind], found[name] = true, true
		}
		w := ask(x.console, "admin", "GET", target, nil)
		if w.Code != 200 {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
		for _, m := range links.FindAllStringSubmatch(w.Body.String(), -1) {
			to, err := at.Parse(html.UnescapeString(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			next = append(next, to.String())
		}
	}
	if len(found) != 9 {
		t.Errorf("links lead to %v, want all 9 pages", found)
	}
	for path, form := range map[string]url.Values{"group": {"id": {x.onlyGroup().ID}, "note": {"x"}}, "start": {"pick": x.refs()[:1], "do": {"replay"}, "upto": {later}}} {
		w := ask(x.console, "admin", "POST", "/a/b/"+path, form)
		if to := w.Header().Get("Location"); w.Code != 303 || strings.HasPrefix(to, "/") || ask(x.console, "admin", "GET", "/a/b/"+to, nil).Code != 200 {
			t.Errorf("%s: got %d to %q, want a page", path, w.Code, to)
		}
	}
}

// What is masked is on no page, and an edit does not lose it.
func TestMaskedIndex(t *testing.T) {
	mask, err := triage.NewMask(triage.MaskRules{Headers: []string{"token"}, Paths: []string{"customer.email"}, Texts: []string{`secret-\d+`}})
	if err != nil {
		t.Fatal(err)
	}
	x := newIndexed(t, func(o *console.Options) { o.Mask = mask })
	m := some(1)[0]
	m.Error, m.Headers = "refused secret-42", map[string]any{"token": "t-hidden", "n": int64(7), "x-secret-42": "y"}
	m.ID, m.Key, m.CorrelationID, m.ReplyTo, m.Type, m.AppID, m.Host, m.Version = "secret-42", "secret-42", "secret-42", "secret-42", "secret-42", "secret-42", "secret-42", "secret-42"
	m.Body, m.ContentType = []byte(`{"customer":{"email":"hidden@example.com"},"total":9223372036854775807}`), "application/json"
	x.put(m)
	ref := x.refs()[0]
	if _, err := x.store.SetGroup(t.Context(), x.onlyGroup().ID, triage.GroupChange{Note: new("see secret-42")}, "bob"); err != nil {
		t.Fatal(err)
	}
	form := fields(x.get("/edit?ref=" + ref))
	changed := with(form, "body", strings.Replace(form.Get("body"), "9223372036854775807", "9223372036854775806", 1))
	preview, _ := x.post("/edit", changed, 200)
	x.has(preview, "9223372036854775806")
	moved := with(form, "body", strings.Replace(form.Get("body"), `"email"`, `"phone"`, 1))
	if wrong, _ := x.post("/edit", moved, 400); !strings.Contains(wrong, "a mask is not where it was") {
		t.Errorf("a mask that was moved: got %s", wrong)
	}
	_, run := x.post("/resend", fields(preview), 303)
	for _, target := range []string{"/groups", "/group?id=" + x.onlyGroup().ID, "/search?q=refused", "/found?ref=" + ref, "/found?ref=" + ref + "&view=text", "/found.body?ref=" + ref, "/found.export?format=jsonl", "/found.export?format=csv", "/edit?ref=" + ref, "/audit", "/runs", "/" + run} {
		x.lacks(x.get(target), "secret-42", "t-hidden", "hidden@example.com")
	}
	x.lacks(preview, "secret-42", "t-hidden", "hidden@example.com")
}

// What a mask hides in the error is not shown by the title of its group, from which numbers were removed before, nor where the error was cut.
func TestMaskedGroup(t *testing.T) {
	mask, err := triage.NewMask(triage.MaskRules{Texts: []string{`customer [0-9]+ [A-Z][a-z]+`, `\b[0-9]{16}\b`}})
	if err != nil {
		t.Fatal(err)
	}
	x := newIndexed(t, func(o *console.Options) { o.Mask = mask })
	m := some(3)
	m[0].Error = "no credit for customer 4711 Winterbottom"
	m[1].Error = strings.Repeat("x ", 2043) + "4111222233334444 is refused"
	m[2].Error = "nothing is hidden of order 17"
	x.put(m...)
	shown := x.get("/groups")
	x.has(shown, "no credit for", "nothing is hidden of order")
	page, err := x.store.Groups(t.Context(), triage.GroupFilter{})
	if err != nil || len(page.Groups) != 3 {
		t.Fatalf("got %+v, %v, want 3 groups", page, err)
	}
	for _, g := range page.Groups {
		shown += x.get("/group?id=" + g.ID)
	}
	x.lacks(shown, "Winterbottom", "4111222233")
}

// What the pages of a queue change on the broker is recorded once, too.
func TestChangesOfQueuesAreRecorded(t *testing.T) {
	r := lab.Embedded(t)
	ctx := kit.Timeout(t, kit.Limit)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	x := newIndexed(t, func(o *console.Options) { o.Connect = func(context.Context) (*admin.Admin, error) { return a, nil } })
	client := kit.Open(t, rehop.Config{URL: r.URL})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays > 0 {
			return nil
		}
		return errors.New("it failed")
	})})
	kit.Publish(t, client, rehop.Message{Key: "orders", ID: "m1"}, rehop.Message{Key: "orders", ID: "m2"})
	lab.Eventually(t, kit.Limit, "2 failed messages", func() bool {
		q, err := a.Queue(ctx, "orders")
		return err == nil && q.Failed == 2
	})
	for i, action := range []string{"replay", "discard"} {
		asked, _ := x.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {action + "-selected"}, "pick": {fmt.Sprint("m", i+1)}}, 200)
		x.post("/"+action, fields(asked), 200)
		last, err := x.store.AuditRecords(ctx, 0, 10)
		if err != nil || len(last) != i+1 || last[0].Action != "failed."+action || last[0].Subject != "orders" || last[0].Actor != "operator <ann>" {
			t.Errorf("%s: got the records %+v, %v, want one more", action, last, err)
		}
	}
}

// The stream of a run has its figures.
func TestEventsOfRun(t *testing.T) {
	x := newIndexed(t)
	x.put(some(3)...)
	run, err := x.store.StartRun(t.Context(), triage.RunPlan{Action: triage.ActionReplay, Refs: x.refs(), Actor: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	shape := regexp.MustCompile(`data-shape="([^"]+)"`).FindStringSubmatch(x.get("/run?id=" + run.ID))[1]
	for id, want := range map[string]string{run.ID: `"shape":"` + shape + `"`, "none": "It is not in the index"} {
		server := httptest.NewServer(x.console)
		request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/events?run="+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Role", "viewer")
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		x.has(lines.Text(), want)
		if id == run.ID {
			x.has(lines.Text(), `"c-planned":"3"`)
		}
		answer.Body.Close()
		server.CloseClientConnections()
		server.Close()
	}
}
