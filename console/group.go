package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/triage"
)

// groupView is the page of one group.
type groupView struct {
	triage.Group
	Chart    chart
	States   []triage.GroupState // that it can get
	MayAct   bool
	NoteHeld bool // the note is masked, and cannot be edited
}

func (x *call) group() error {
	id := x.r.URL.Query().Get("id")
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	g, err := store.Group(ctx, id)
	if err != nil {
		return ofIndex(err)
	}
	now := time.Now()
	history, err := store.History(ctx, id, now.Add(-weekHours*time.Hour))
	if err != nil {
		return ofIndex(err)
	}
	shown, err := x.maskGroup(ctx, store, g)
	if err != nil {
		return err
	}
	v := groupView{Group: shown, Chart: chartOf(history, weekHours, now), MayAct: x.may(Operator)}
	v.NoteHeld = v.Note != g.Note
	v.States = decisions()
	return x.show("group", "Group", v)
}

// decisions are the states that a group can get. It becomes regressed by itself.
func decisions() []triage.GroupState {
	return []triage.GroupState{triage.GroupOpen, triage.Acknowledged, triage.Resolved, triage.Ignored}
}

// maxNote is how many bytes a note or the name of an assignee can have.
const maxNote = 16 << 10

// Search is the address of the messages of the group.
func (v groupView) Search() string { return searchLink("group:" + v.ID) }

func searchLink(query string) string { return "search?" + url.Values{"q": {query}}.Encode() }

// setGroup changes the state, the assignee and the note of a group. What the form does not have stays.
func (x *call) setGroup() error {
	form := x.r.PostForm
	id := form.Get("id")
	var change triage.GroupChange
	if state := triage.GroupState(form.Get("state")); state != "" { // none is chosen of a group that is regressed
		change.State = &state
	}
	if form.Has("assignee") {
		assignee := strings.TrimSpace(form.Get("assignee"))
		change.Assignee = &assignee
	}
	if form.Has("note") {
		note := typed(form.Get("note"))
		change.Note = &note
	}
	wrong := ""
	switch {
	case id == "" || change == (triage.GroupChange{}):
		wrong = "The form needs a group, and what is to be changed."
	case change.State != nil && !slices.Contains(decisions(), *change.State):
		wrong = fmt.Sprintf("The state cannot become %q: it can be open, acknowledged, resolved or ignored.", string(*change.State))
	case !isNote(change.Assignee) || !isNote(change.Note):
		wrong = fmt.Sprintf("The assignee and the note must be text of at most %s.", size(maxNote))
	}
	if wrong != "" {
		return &fault{status: http.StatusBadRequest, text: wrong, hint: "Go back to the group, and try again."}
	}
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	if _, err := store.SetGroup(ctx, id, change, x.actor()); err != nil {
		return ofIndex(err)
	}
	x.logChange("a group was changed", "group", id)
	redirect(x.w, "group?"+url.Values{"id": {id}}.Encode())
	return nil
}

func isNote(text *string) bool {
	return text == nil || len(*text) <= maxNote && utf8.ValidString(*text)
}

// typed is a text of several lines that a browser has sent: it ends each line with two characters.
func typed(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
