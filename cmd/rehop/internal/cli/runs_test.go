package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/triage"
)

// started starts a run with the messages of a query, on which nothing works.
func started(t *testing.T, store *triage.Store, action triage.Action, query string) triage.Run {
	t.Helper()
	q, err := triage.ParseQuery(query, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	run, err := store.StartRun(t.Context(), triage.RunPlan{Action: action, Query: q, Actor: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestRunsStart(t *testing.T) {
	store := withIndex(t, 3)
	out, _ := runs(t, exitDone, "runs", "start", "replay", "queue:mail", "--to", "other", "--rate", "5", "--canary", "--stop-above", "0.2", "--actor", "bob", "--yes", "--no-wait", "--json")
	var view runView
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	run, err := store.Run(t.Context(), view.ID)
	if err != nil || run.Action != triage.ActionReplay || run.Query != "queue:mail" || run.To != "other" || run.Rate != 5 || !run.Canary || run.StopAbove != 0.2 || run.Actor != "bob" || run.Counts.Planned != 3 {
		t.Errorf("got %+v, %v, want the run with all settings", run, err)
	}
	for action, want := range map[string]string{"discard": "discard 2 messages\n", "keep": "keep 2 messages\n"} {
		out, _ = runs(t, exitDone, "runs", "start", action, "--ref", refOf(t, store, "m0"), "--ref", refOf(t, store, "m1"), "--yes", "--no-wait")
		has(t, out, want)
	}
	_, said := runs(t, exitDone, "runs", "start", "discard", "--ref", refOf(t, store, "m0"), "--ref", strings.Repeat("0", 32), "--yes", "--no-wait")
	has(t, said, "1 of 2 messages left out: not in the index, or not in the state failed or kept")
	if out, _ := runs(t, exitDone, "runs", "start", "discard", "id:m1", "--dry-run"); out != "1 message would be discarded\n" {
		t.Errorf("got %q, want the number of messages", out)
	}
	out, _ = runs(t, exitDone, "runs", "start", "discard", "id:m1", "--dry-run", "--json")
	has(t, out, `"done": 1`, `"dry_run": true`)
	_, said = runs(t, exitFailed, "runs", "start", "restore", "queue:mail", "--yes")
	has(t, said, "no message matches to which this can be done: it needs messages in the state discarded or kept; nothing was started")
	for _, to := range []string{"rehop.triage", "mail.failed"} {
		_, said = runs(t, exitFailed, "runs", "start", "replay", "queue:mail", "--to", to, "--yes")
		has(t, said, "messages cannot be replayed to this queue", to)
	}
	_, said = runs(t, exitFailed, "runs", "start", "replay", "--ref", "xyz", "--yes")
	has(t, said, `"xyz" is not the ref of a message`)

	for want, args := range map[string][]string{
		"which action?": {}, "there is no action \"explode\"": {"explode", "x"}, "which messages?": {"discard"}, "exclude each other": {"discard", "x", "--ref", "y"},
		"--rate is for the action replay": {"discard", "x", "--rate", "1"}, "--to is for the action replay": {"keep", "x", "--to", "q"}, "--canary is for": {"restore", "x", "--canary"},
		"--rate -1 must not be negative": {"replay", "x", "--rate", "-1"}, "--stop-above 2 must be from 0 to 1": {"replay", "x", "--stop-above", "2"},
		`replay 3 messages to the queue "q" that match "queue:mail": the standard input is not a terminal`: {"replay", "queue:mail", "--to", "q"},
	} {
		_, said := runs(t, exitUsage, append([]string{"runs", "start"}, args...)...)
		has(t, said, want)
	}
	_, said = runs(t, exitUsage, "runs", "start", "discard", "") // a variable that is not set
	has(t, said, "which messages?")
	out, _ = runs(t, exitDone, "__complete", "runs", "start", "")
	has(t, out, "restore\n")
}

// A database that can lose commits cannot keep messages.
func TestRunsKeepNeedsDurability(t *testing.T) {
	withIndex(t, 1)
	_, said := runs(t, exitFailed, "runs", "start", "keep", "queue:mail", "--yes", "--no-wait", "--database", "sqlite:"+defaultIndex()+"?_pragma=synchronous(OFF)")
	has(t, said, "synchronous=OFF")
}

func refOf(t *testing.T, store *triage.Store, id string) string {
	t.Helper()
	q, err := triage.ParseQuery("id:"+id, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	found, err := store.Search(t.Context(), q, triage.Page{})
	if err != nil || len(found.Messages) != 1 {
		t.Fatalf("got %+v, %v, want message %s", found, err, id)
	}
	return found.Messages[0].Ref
}

// The user is asked with the number of messages, and the run has no others.
func TestRunsAsk(t *testing.T) {
	store := withIndex(t, 2)
	s, _, errs := terminal("n\n", nil)
	if code := Run(t.Context(), []string{"runs", "start", "discard", "queue:mail"}, s); code != exitFailed {
		t.Errorf("got code %d: %s", code, errs)
	}
	has(t, errs.String(), `discard 2 messages that match "queue:mail"? [y/N]`, "not confirmed; nothing was changed")
	if all, err := store.Runs(t.Context(), triage.RunFilter{}); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v, want no run", all, err)
	}
	s, out, errs := terminal("", nil)
	s.In = answer(func() string { putMail(t, store, 2, 5); return "y\n" })
	if code := Run(t.Context(), []string{"runs", "start", "discard", "queue:mail", "--no-wait"}, s); code != exitDone {
		t.Errorf("got code %d: %s", code, errs)
	}
	has(t, out.String(), "discard 2 messages\n")
}

// onNotice calls do when a command prints a text.
type onNotice struct {
	bytes.Buffer
	text string
	do   func()
}

func (n *onNotice) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(n.text)) {
		n.do()
	}
	return n.Buffer.Write(p)
}

// A command that waits reports that nothing works on the run, and how it ends.
func TestRunsWait(t *testing.T) {
	store := withIndex(t, 4)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, tt := range []struct {
		id   string
		end  triage.RunState
		want string
		code int
	}{{"m0", triage.Stopped, "was stopped: enough", exitFailed}, {"m1", triage.Paused, "is paused: enough; rehop runs continue ", exitFailed}} {
		run := started(t, store, triage.ActionDiscard, "id:"+tt.id)
		said := &onNotice{text: "rehop up or rehop run must be running with this index", do: func() {
			if _, err := store.SetRun(t.Context(), run.ID, tt.end, "bob", "enough"); err != nil {
				t.Error(err)
			}
		}}
		var out bytes.Buffer
		c := &command{Surroundings: Surroundings{Out: &out, Err: said}}
		w := &runWait{index: &index{command: c}, store: store, every: time.Millisecond, untouched: time.Millisecond}
		err := w.until(limited, run, "discarded")
		if codeOf(limited, err) != tt.code {
			t.Fatalf("%s: got %v, want code %d", tt.end, err, tt.code)
		}
		has(t, err.Error(), tt.want)
		has(t, out.String(), string(tt.end)+": 1 planned\n")
	}

	// An interruption leaves the run running.
	run := started(t, store, triage.ActionReplay, "id:m2")
	ctx, interrupt := context.WithCancel(limited)
	said := &onNotice{text: "nothing works on the run yet", do: interrupt}
	c := &command{Surroundings: Surroundings{Out: &bytes.Buffer{}, Err: said}}
	w := &runWait{index: &index{command: c}, store: store, every: time.Hour, untouched: time.Millisecond}
	if err := w.until(ctx, run, "replayed"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
	has(t, said.String(), "the run continues without this command: rehop runs show "+run.ID)
	if now, err := store.Run(t.Context(), run.ID); err != nil || now.State != triage.Running {
		t.Errorf("got %+v, %v, want that it runs", now, err)
	}
}

// The result of a run that has ended has all its numbers.
func TestRunsEnd(t *testing.T) {
	store := withIndex(t, 6)
	run := started(t, store, triage.ActionReplay, "queue:mail")
	change(t, "UPDATE rehop_triage_run SET state = 3, planned = 0, sent = 1, succeeded = 2, failed = 1, gone = 1, refused = 1")
	change(t, "UPDATE rehop_triage_run_item SET state = 6, reason = 'no such queue' WHERE lineage = (SELECT MIN(lineage) FROM rehop_triage_run_item)")
	ended, err := store.Run(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		var out, said bytes.Buffer
		c := &command{Surroundings: Surroundings{Out: &out, Err: &said}, json: asJSON}
		err = newRunWait(&index{command: c}, store).until(t.Context(), ended, "replayed")
		if codeOf(t.Context(), err) != exitFailed {
			t.Fatalf("got %v, want an error", err)
		}
		has(t, err.Error(), "1 message refused; rehop runs show "+run.ID)
		has(t, said.String(), "the outcome of 1 message is not known yet")
		if asJSON {
			has(t, out.String(), `"succeeded": 2`)
		} else {
			has(t, out.String(), "done: 1 sent, 2 succeeded, 1 failed again, 1 gone, 1 refused\n")
		}
	}
	out, said := runs(t, exitDone, "runs", "show", run.ID)
	has(t, out, "state           done\n", "query           queue:mail\n", "messages        6: 1 sent, 2 succeeded, 1 failed again, 1 gone, 1 refused\n", "\nREFUSED ", "  no such queue\n")
	if said != "" {
		t.Errorf("got %q, want no notice", said)
	}
	change(t, "UPDATE rehop_triage_run_item SET state = 6, reason = 'no such queue'")
	change(t, "UPDATE rehop_triage_run SET sent = 0, succeeded = 0, failed = 0, gone = 0, refused = 6")
	out, said = runs(t, exitDone, "runs", "show", run.ID, "--limit", "2", "--json")
	has(t, said, "2 of 6 refused messages listed; use --limit to list more")
	var view runView
	if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Refused) != 2 || view.Refused[0].Reason != "no such queue" || view.Messages.Refused != 6 {
		t.Errorf("got %q, %v, want two refused messages", out, err)
	}
	_, said = runs(t, exitFailed, "runs", "show", "nobody")
	has(t, said, "not in the index; rehop runs ls lists the runs")
	_, said = runs(t, exitUsage, "runs", "show", run.ID, "--limit", "0")
	has(t, said, "must be positive")
	_, said = runs(t, exitUsage, "runs", "show")
	has(t, said, "which id?")
}

func TestRunsList(t *testing.T) {
	store := withIndex(t, 3)
	if out, _ := runs(t, exitDone, "runs", "ls"); out != "none\n" {
		t.Errorf("got %q, want none", out)
	}
	if out, _ := runs(t, exitDone, "runs", "ls", "--json"); out != "[]\n" {
		t.Errorf("got %q, want an empty list", out)
	}
	first, second := started(t, store, triage.ActionReplay, "id:m0"), started(t, store, triage.ActionDiscard, "id:m1")
	out, said := runs(t, exitDone, "runs", "ls", "--limit", "2")
	lines := strings.Split(out, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], second.ID) || !strings.HasPrefix(lines[2], first.ID) || said != "" {
		t.Errorf("got %q and %q, want both runs, the newest first", out, said)
	}
	has(t, lines[1], " discard ", " running ", " ann ", " 1 planned ", " id:m1")
	out, said = runs(t, exitDone, "runs", "ls", "--limit", "1", "--json")
	has(t, said, "there are more runs; use --limit to list more")
	var views []runView
	if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != 1 || views[0].ID != second.ID || views[0].Messages.Planned != 1 {
		t.Errorf("got %q, %v, want the newest run", out, err)
	}
	if out, _ := runs(t, exitDone, "runs", "ls", "--state", "paused,done"); out != "none\n" {
		t.Errorf("got %q, want none", out)
	}
	_, said = runs(t, exitUsage, "runs", "ls", "--state", "odd")
	has(t, said, "the states are running, paused, stopped, done")
	_, said = runs(t, exitUsage, "runs", "ls", "--limit", "0")
	has(t, said, "must be positive")
}

func TestRunsSet(t *testing.T) {
	store := withIndex(t, 2)
	id := started(t, store, triage.ActionReplay, "queue:mail").ID
	for _, tt := range []struct {
		verb string
		want triage.RunState
	}{{"pause", triage.Paused}, {"continue", triage.Running}, {"stop", triage.Stopped}} {
		out, _ := runs(t, exitDone, "runs", tt.verb, id, "--actor", "bob", "--reason", "because")
		if out != "run "+id+" is "+string(tt.want)+": 2 planned\n" {
			t.Errorf("%s: got %q", tt.verb, out)
		}
		if now, err := store.Run(t.Context(), id); err != nil || now.State != tt.want || now.Reason != "because" {
			t.Errorf("%s: got %+v, %v", tt.verb, now, err)
		}
		_, said := runs(t, exitFailed, "runs", tt.verb, "nobody")
		has(t, said, "not in the index; rehop runs ls lists the runs")
		_, said = runs(t, exitUsage, "runs", tt.verb)
		has(t, said, "which id?")
	}
	_, said := runs(t, exitFailed, "runs", "continue", id)
	has(t, said, "the run has ended: it is stopped")
	out, _ := runs(t, exitDone, "runs", "stop", id, "--json")
	has(t, out, `"state": "stopped"`)
	records, err := store.AuditRecords(t.Context(), 0, 10)
	if err != nil || len(records) != 4 || records[0].Action != "run.stopped" || records[0].Actor != "bob" {
		t.Errorf("got %+v, %v, want all changes in the audit", records, err)
	}
	out, _ = runs(t, exitDone, "__complete", "runs", "show", "")
	has(t, out, id+"\treplay, stopped: queue:mail\n")
}
