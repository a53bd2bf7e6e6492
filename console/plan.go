package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/triage"
)

// planView asks whether a run is to be started.
type planView struct {
	Action triage.Action
	Canary bool
	Query  string   // as a value of a form
	Shown  string   // the query as it may be shown
	At     string   // when the query was written, by the console's clock, for times such as since:2h
	UpTo   string   // when the messages were counted, by the database's clock
	ID     string   // of the run, so that a form that is sent twice starts one
	Refs   []string // the selected messages; none: those that match the query
	Count  int
	// NotWhole is how many messages the index does not have all words of.
	NotWhole int
	Wrong    string
}

// maxPicks is how many messages can be selected. A page of a search has fewer.
const maxPicks = 500

// plan counts the messages of a run, and asks.
func (x *call) plan() error {
	form := x.r.PostForm
	v := planView{Action: triage.Action(form.Get("do")), At: time.Now().UTC().Format(time.RFC3339Nano)}
	if v.Action == "canary" {
		v.Action, v.Canary = triage.ActionReplay, true
	}
	if err := x.choose(&v, form.Get("scope") == "all"); err != nil {
		return err
	}
	return x.askRun(http.StatusOK, v)
}

// choose reads which messages a form is about.
func (x *call) choose(v *planView, all bool) error {
	form := x.r.PostForm
	wrong := func(text, hint string) error {
		return &fault{status: http.StatusBadRequest, text: text, hint: hint}
	}
	if takes(v.Action) == nil {
		return wrong("The form does not name an action.", "Go back to the search, and try again.")
	}
	if !all {
		if v.Refs = form["pick"]; len(v.Refs) == 0 {
			return wrong("No message is selected.", "Go back, and select messages in the first column, or choose all that match.")
		}
		if len(v.Refs) > maxPicks {
			return wrong(fmt.Sprintf("%d messages are selected; the most are %d.", len(v.Refs), maxPicks), "Write a query that finds them, and choose all that match.")
		}
		return nil
	}
	if !form.Has("query") {
		return wrong("The form has no query.", "Go back to the search, and try again.")
	}
	query, err := url.QueryUnescape(form.Get("query"))
	if err != nil {
		return wrong("The form has a query that cannot be read.", "Go back to the search, and try again.")
	}
	v.Query, v.Shown = url.QueryEscape(query), x.console.maskText(query)
	_, err = v.query()
	return err
}

// takes are the conditions for messages to which an action can apply, in the language of queries. It is nil for an unknown action.
func takes(a triage.Action) []string {
	switch a {
	case triage.ActionReplay, triage.ActionDiscard:
		return []string{"-state:replayed", "-state:succeeded", "-state:discarded", "-state:gone"}
	case triage.ActionRestore:
		return []string{"-state:failed", "-state:replayed", "-state:succeeded", "-state:gone"}
	case triage.ActionKeep:
		return []string{"state:failed"}
	}
	return nil
}

// query is the query with its times as they were when the messages were counted.
func (v planView) query() (triage.Query, error) {
	at, err := timeOf(v.At)
	if err != nil {
		return triage.Query{}, err
	}
	query, _ := url.QueryUnescape(v.Query) // it was escaped here
	return parsed(query, at)
}

// timeOf reads a time of a form.
func timeOf(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, &fault{status: http.StatusBadRequest, text: "The form has a time that cannot be read.", hint: "Go back to the search, and try again."}
	}
	return at, nil
}

// parsed reads a query of a form.
func parsed(query string, at time.Time) (triage.Query, error) {
	q, err := triage.ParseQuery(strings.TrimSpace(query), at)
	if err != nil {
		wrong := wrongQuery(err)
		return q, &fault{status: http.StatusBadRequest, text: fmt.Sprintf("The query is wrong at character %d: %s.", wrong.Column, wrong.Problem), hint: wrong.Hint}
	}
	return q, nil
}

// askRun counts the messages, and shows the page that asks for a confirmation.
func (x *call) askRun(status int, v planView) error {
	store, ctx, end, err := x.indexForRun()
	if err != nil {
		return err
	}
	defer end()
	plan := triage.RunPlan{Action: v.Action, Refs: v.Refs, Actor: x.actor()}
	if len(v.Refs) == 0 {
		if plan.Query, err = v.query(); err != nil {
			return err
		}
	}
	count, err := store.CountRun(ctx, plan)
	if err != nil {
		return ofIndex(err)
	}
	v.Count, v.NotWhole, v.UpTo, v.ID = count.Messages, count.NotWhole, count.At.Format(time.RFC3339Nano), triage.NewRunID()
	return x.showStatus(status, "plan", map[triage.Action]string{triage.ActionReplay: "Replay", triage.ActionDiscard: "Discard", triage.ActionRestore: "Restore", triage.ActionKeep: "Keep"}[v.Action], v)
}

// Back is the address of the search.
func (v planView) Back() string {
	query, _ := url.QueryUnescape(v.Query) // it was escaped here
	return searchLink(query)
}

// start starts a run with exactly what was confirmed, and leads to its page.
func (x *call) start() error {
	form := x.r.PostForm
	v := planView{Action: triage.Action(form.Get("do")), At: form.Get("at"), Canary: form.Get("canary") != ""}
	if err := x.choose(&v, len(form["pick"]) == 0); err != nil {
		return err
	}
	run := triage.RunPlan{ID: form.Get("id"), Action: v.Action, Refs: v.Refs, Actor: x.actor(), Canary: v.Canary}
	if v.Action == triage.ActionDiscard {
		if count := form.Get("count"); count == "" || count != "1" && strings.ReplaceAll(strings.TrimSpace(form.Get("typed")), ",", "") != count {
			v.Wrong = "Type the number of messages to confirm that you want to discard them."
			return x.askRun(http.StatusBadRequest, v)
		}
	}
	var err error
	if len(v.Refs) == 0 {
		if run.Query, err = v.query(); err != nil {
			return err
		}
	}
	if run.UpTo, err = timeOf(form.Get("upto")); err != nil { // it has none that were not counted
		return err
	}
	if v.Action == triage.ActionReplay {
		run.To = form.Get("to")
		if run.Rate, err = numberOf(form.Get("rate"), maxRate, "rate", "messages per second"); err != nil {
			return err
		}
		percent, err := numberOf(form.Get("stop"), 100, "limit of failures", "percent")
		if err != nil {
			return err
		}
		run.StopAbove = percent / 100
	}
	return x.startRun(run)
}

// startRun starts a run. The index records it in the audit.
func (x *call) startRun(plan triage.RunPlan) error {
	store, ctx, end, err := x.indexForRun()
	if err != nil {
		return err
	}
	defer end()
	run, err := store.StartRun(ctx, plan)
	if err != nil {
		return ofIndex(err)
	}
	x.logChange("a run was started", "run", run.ID, "action", string(run.Action), "query", run.Query, "messages", run.Counts.Total())
	redirect(x.w, "run?"+url.Values{"id": {run.ID}}.Encode())
	return nil
}

// numberOf reads a positive number of a form, or 0 if there is none.
func numberOf(text string, most float64, name, unit string) (float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n <= most) {
		return 0, &fault{status: http.StatusBadRequest, text: fmt.Sprintf("The %s %q is not a positive number of %s.", name, text, unit),
			hint: fmt.Sprintf("Go back, and write a number up to %s, or nothing.", number(int(most)))}
	}
	return n, nil
}
