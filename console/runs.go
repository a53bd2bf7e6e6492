package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rehop/rehop/triage"
)

// runsView is a page of the list of runs.
type runsView struct {
	Runs  []triage.Run
	First bool
	Next  string // the ID after which the next page begins
}

// runsShown is how many runs a page has.
const runsShown = 50

func (x *call) runs() error {
	after := x.r.URL.Query().Get("after")
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	v := runsView{First: after == ""}
	if v.Runs, err = store.Runs(ctx, triage.RunFilter{Limit: runsShown + 1, After: after}); err != nil {
		return ofIndex(err)
	}
	if len(v.Runs) > runsShown {
		v.Runs = v.Runs[:runsShown]
		v.Next = v.Runs[runsShown-1].ID
	}
	for i := range v.Runs {
		v.Runs[i] = x.console.maskRun(v.Runs[i])
	}
	return x.show("runs", "Runs", v)
}

// maskRun is a run as it may be shown.
func (c *Console) maskRun(r triage.Run) triage.Run {
	r.Query, r.Reason = c.maskText(r.Query), c.maskText(r.Reason)
	return r
}

// runView is the page of a run.
type runView struct {
	triage.Run
	Ended  int // messages with which the run has nothing more to do
	Shape  string
	States []runCount
	Only   string // of the items that are shown; empty: all
	Items  []triage.Item
	First  bool
	Next   string
	MayAct bool
}

// runCount is how many messages of a run are in a state.
type runCount struct {
	State  triage.ItemState
	Count  int
	Figure string // the id of the element with the number
	Help   string
}

func countsOf(r triage.Run) []runCount {
	c := r.Counts
	sent := "sent, and the outcome is not known"
	if r.Action != triage.ActionReplay {
		sent = "done"
	}
	return []runCount{{triage.ItemPlanned, c.Planned, "c-planned", "planned"}, {triage.ItemSending, c.Sending, "c-sending", "being sent"}, {triage.ItemSent, c.Sent, "c-sent", sent},
		{triage.ItemSucceeded, c.Succeeded, "c-succeeded", "succeeded"}, {triage.ItemFailed, c.Failed, "c-failed", "failed again"}, {triage.ItemGone, c.Gone, "c-gone", "gone: no longer in the failed queue, or failed another time"},
		{triage.ItemRefused, c.Refused, "c-refused", "refused: could not be sent, and is where it was"}}
}

// runShape differs when the page of a run has to be loaded again: with its state, its reason, and what its bar shows.
func runShape(r triage.Run) string {
	done := 0
	if total := r.Counts.Total(); total > 0 {
		done = ended(r) * 1000 / total
	}
	return shapeOf(string(r.State) + "\x00" + r.Reason + "\x00" + number(done))
}

func ended(r triage.Run) int { return r.Counts.Total() - r.Counts.Planned - r.Counts.Sending }

func (x *call) run() error {
	query := x.r.URL.Query()
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	r, err := store.Run(ctx, query.Get("id"))
	if err != nil {
		return ofIndex(err)
	}
	v := runView{Run: x.console.maskRun(r), Ended: ended(r), Shape: runShape(r), States: countsOf(r), Only: query.Get("state"), First: query.Get("after") == "", MayAct: x.may(Operator)}
	if v.Only != "" && !slices.ContainsFunc(v.States, func(c runCount) bool { return string(c.State) == v.Only }) {
		return &fault{status: http.StatusBadRequest, text: "There is no such state of a message of a run.", hint: "Choose a state on the page of the run."}
	}
	page, err := store.RunItems(ctx, r.ID, triage.ItemState(v.Only), triage.Page{After: query.Get("after")})
	if err != nil {
		return ofIndex(err)
	}
	v.Items, v.Next = page.Items, page.Next
	for i := range v.Items {
		v.Items[i].Reason = x.console.maskText(v.Items[i].Reason)
	}
	return x.show("run", "Run", v)
}

// Link is the page with the messages in a state, after a place.
func (v runView) Link(state, after string) string {
	q := url.Values{"id": {v.ID}}
	if state != "" {
		q.Set("state", state)
	}
	if after != "" {
		q.Set("after", after)
	}
	return "run?" + q.Encode()
}

// Percent is a share as the page shows it.
func (v runView) Percent() string { return exact(v.StopAbove*100) + " %" }

// PerSecond is the rate as the page shows it. A low one must not look like none.
func (v runView) PerSecond() string { return exact(v.Rate) }

// exact is a number with as many digits as it was stored with.
func exact(n float64) string { return strconv.FormatFloat(n, 'f', -1, 32) }

// Events is the address of the stream of the run.
func (v runView) Events() string { return "events?" + url.Values{"run": {v.ID}}.Encode() }

// nextOfRun is the next event of the page of a run.
func (x *call) nextOfRun(id string) update {
	store, ctx, end, err := x.index()
	if err != nil {
		return update{Error: faultOf(err).text}
	}
	defer end()
	r, err := store.Run(ctx, id)
	if err != nil {
		return update{Error: faultOf(ofIndex(err)).text}
	}
	u := updateAt(runShape(r), time.Now())
	for _, c := range countsOf(r) {
		u.Figures[c.Figure] = number(c.Count)
	}
	return u
}

// setRun pauses, continues or stops a run. The index records it in the audit.
func (x *call) setRun() error {
	form := x.r.PostForm
	id, state := form.Get("id"), triage.RunState(form.Get("state"))
	if id == "" || !slices.Contains([]triage.RunState{triage.Paused, triage.Running, triage.Stopped}, state) {
		return &fault{status: http.StatusBadRequest, text: "The form needs a run, and whether it is to be paused, running or stopped.", hint: "Go back to the run, and try again."}
	}
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	if _, err := store.SetRun(ctx, id, state, x.actor(), string(state)+" by "+x.actor()); err != nil {
		return ofIndex(err)
	}
	x.logChange("a run was changed", "run", id, "state", string(state))
	redirect(x.w, "run?"+url.Values{"id": {id}}.Encode())
	return nil
}
