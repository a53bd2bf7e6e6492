package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/triage"
)

func TestSearch(t *testing.T) {
	store := withIndex(t, 5)
	out, said := runs(t, exitDone, "failed", "search")
	lines := strings.Split(out, "\n")
	if len(lines) != 9 || !strings.Contains(lines[1], " m4 ") || !strings.Contains(lines[5], " m0 ") || lines[7] != "5 messages" || said != "" {
		t.Errorf("got %q and %q, want the newest first", out, said)
	}
	out, said = runs(t, exitDone, "failed", "search", "queue:mail", "header.tenant:t-7", "--limit", "2")
	has(t, out, " m4 ", " m3 ", "\n\n2 of 5 messages\n")
	has(t, said, "not all messages are listed (2 of 5 messages); use --limit to list more")
	if out, _ := runs(t, exitDone, "failed", "search", "nowhere"); out != "none\n" {
		t.Errorf("got %q, want none", out)
	}
	out, _ = runs(t, exitDone, "failed", "search", "--", "-id:m1", "-id:m2")
	has(t, out, "\n3 messages\n")

	// Words that follow each other are not counted beyond what was read.
	out, _ = runs(t, exitDone, "failed", "search", `"mail server"`, "--limit", "2")
	has(t, out, "\n2 messages, and there may be more\n")
	out, _ = runs(t, exitDone, "failed", "search", `"mail server"`)
	has(t, out, "\n5 messages\n")

	out, _ = runs(t, exitDone, "failed", "search", "body.order:3", "--json")
	var view struct {
		Ref, ID, State, Group, Body, Version string
		Failed_queue                         string
		Headers                              map[string]any
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("got %q, %v, want one line", out, err)
	}
	if view.ID != "m3" || view.State != "failed" || view.Failed_queue != "mail.failed" || view.Headers["tenant"] != "t-7" || view.Body != `{"order": 3}` || view.Version != "1.2" || view.Group == "" {
		t.Errorf("got %+v, want everything of the message", view)
	}
	if m, err := store.Message(t.Context(), view.Ref); err != nil || m.ID != "m3" {
		t.Errorf("got %v, %v by its ref, want m3", m.ID, err)
	}
	if out, _ := runs(t, exitDone, "failed", "search", "nowhere", "--json"); out != "" {
		t.Errorf("got %q, want no lines", out)
	}
	_, said = runs(t, exitUsage, "failed", "search", "--limit", "0")
	has(t, said, "must be positive")
}

// An error in a query shows the place.
func TestSearchPointsAtErrors(t *testing.T) {
	withIndex(t, 1)
	for _, tt := range []struct{ query, at string }{
		{"queue:mail colour:red", "    queue:mail colour:red\n               ^"},
		{"é\x1b colour:red", "    é\\u001b colour:red\n            ^"},
		{`error:"not closed`, `    error:"not closed` + "\n"},
	} {
		for _, args := range [][]string{{"failed", "search", tt.query}, {"runs", "start", "replay", tt.query, "--yes"}} {
			_, said := runs(t, exitUsage, args...)
			has(t, said, "rehop: query, at character ", tt.at)
		}
	}
}

// A count that is a lower bound, and messages that the index does not have whole, are reported.
func TestSearchIsHonest(t *testing.T) {
	store := withIndex(t, 0)
	putMail(t, store, 0, 1001)
	out, said := runs(t, exitDone, "failed", "search", "since:1d", "--limit", "600")
	if !strings.HasSuffix(out, "\n600 of at least 1000 messages\n") && !strings.HasSuffix(out, "\n600 of 1001 messages\n") {
		t.Errorf("got %q at the end, want the number of messages", out[len(out)-60:])
	}
	has(t, said, "not all messages are listed (600 of ")
	out, said = runs(t, exitDone, "failed", "search", "--limit", "2000")
	has(t, out, "\n1001 messages\n")
	if said != "" {
		t.Errorf("got %q, want no notice", said)
	}

	large := triage.Message{ID: "large", Queue: "mail", FailedQueue: "mail.failed"}
	for i := range 10_000 {
		large.Body = fmt.Appendf(large.Body, "word%d ", i)
	}
	if err := store.Put(t.Context(), []triage.Message{large}); err != nil {
		t.Fatal(err)
	}
	_, said = runs(t, exitDone, "failed", "search", "word9999")
	has(t, said, "1 message has more words and values than the index holds, so that the search may have missed some of them")
	_, said = runs(t, exitDone, "runs", "start", "replay", "word1", "--dry-run")
	has(t, said, "1 message has more words and values than the index holds, so that the run may miss some of them")
}

// A search that stops because it has read very many texts is continued, and the notice explains why it takes long.
func TestSearchContinues(t *testing.T) {
	store := withIndex(t, 1) // the oldest, with the words next to each other
	for from := 0; from < 5001; from += 1000 {
		var some []triage.Message
		for i := from; i < from+1000; i++ {
			some = append(some, triage.Message{ID: fmt.Sprint("x", i), Queue: "mail", FailedQueue: "mail.failed", Error: "server of mail", FailedAt: time.Now()})
		}
		if err := store.Put(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	out, said := runs(t, exitDone, "failed", "search", `"mail server"`)
	has(t, out, " m0 ", "\n1 message\n")
	if strings.Count(said, "\n") != 1 {
		t.Errorf("got %q, want one notice", said)
	}
	has(t, said, "the texts of very many messages must be read")
}

// What was found before an interruption is printed, and that there may be more.
func TestSearchInterrupted(t *testing.T) {
	store := withIndex(t, 3)
	s, out, errs := terminal("", map[string]string{"NO_COLOR": "1"})
	x := &search{index: &index{command: &command{Surroundings: s}}, store: store, query: triage.Query{}, limit: 2}
	if err := x.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.limit = 3
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := x.run(ctx); err == nil || ctx.Err() == nil {
		t.Error("got no error, want that it was interrupted")
	}
	has(t, out.String(), "m2", "m1")
	has(t, errs.String(), "not all messages are listed (2 of 3 messages)")
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)); n > 81 {
			t.Errorf("got %d columns on a terminal of 80: %q", n, line)
		}
	}
}

func TestNotWhole(t *testing.T) {
	for n, want := range map[int]string{1: "1 message has", 2: "2 messages have", 1000: "1000 messages or more have"} {
		if got := notWhole(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
