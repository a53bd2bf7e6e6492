package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/triage"
)

// groupsView is a page of the list of groups.
type groupsView struct {
	State  string
	Queue  string
	Order  string
	States []string
	Queues []string
	Groups []groupRow
	First  bool // it is the first page
	Next   string
}

// groupRow is a group in the list.
type groupRow struct {
	triage.Group
	Cut   bool // the title is longer
	Chart chart
}

// groupStates are the states that a list can be limited to. undecided are those that need somebody.
func groupStates() []string {
	return []string{undecided, string(triage.GroupOpen), string(triage.Regressed), string(triage.Acknowledged), string(triage.Resolved), string(triage.Ignored)}
}

const (
	undecided = "open or regressed"
	// dayHours is how many hours a list shows, and weekHours the page of a group.
	dayHours  = 24
	weekHours = 7 * 24
)

func (x *call) groups() error {
	query := x.r.URL.Query()
	v := groupsView{State: query.Get("state"), Order: query.Get("order"), States: groupStates(), First: query.Get("after") == ""}
	after, err := x.after()
	if err != nil {
		return err
	}
	f := triage.GroupFilter{Order: triage.GroupOrder(v.Order), After: after}
	if f.Order != triage.ByLastSeen && f.Order != triage.ByFailed {
		return &fault{status: http.StatusBadRequest, text: fmt.Sprintf("There is no order %q.", v.Order), hint: "Leave it out for the newest first, or write order=count."}
	}
	switch {
	case v.State == undecided:
		f.States = []triage.GroupState{triage.GroupOpen, triage.Regressed}
	case slices.Contains(v.States, v.State):
		f.States = []triage.GroupState{triage.GroupState(v.State)}
	case v.State != "":
		return &fault{status: http.StatusBadRequest, text: fmt.Sprintf("There is no state %q of a group.", v.State), hint: "The states are " + strings.Join(v.States[1:], ", ") + "."}
	}
	if v.Queue, err = url.QueryUnescape(query.Get("in")); err != nil {
		return &fault{status: http.StatusBadRequest, text: "The address has a queue that cannot be read."}
	}
	f.Queue = v.Queue
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	page, err := store.Groups(ctx, f)
	if err != nil {
		return ofIndex(err)
	}
	queues, err := store.Queues(ctx)
	if err != nil {
		return ofIndex(err)
	}
	v.Next, v.Queues = page.Next, queueNames(queues, v.Queue)
	now := time.Now()
	for _, g := range page.Groups {
		history, err := store.History(ctx, g.ID, now.Add(-dayHours*time.Hour))
		if err != nil {
			return ofIndex(err)
		}
		shown, err := x.maskGroup(ctx, store, g)
		if err != nil {
			return err
		}
		r := groupRow{Group: shown, Chart: chartOf(history, dayHours, now)}
		r.Title, r.Cut = cut(r.Title, maxErrorShown)
		v.Groups = append(v.Groups, r)
	}
	return x.show("groups", "Groups", v)
}

// queueNames are the queues that can be chosen: those with failed messages, and the chosen one.
func queueNames(queues []triage.Queue, chosen string) (names []string) {
	for _, q := range queues {
		if q.Of != "" {
			names = append(names, q.Of)
		}
	}
	if chosen != "" {
		names = append(names, chosen)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Link is the list with another value in its query, from its first page on.
func (v groupsView) Link(name, value string) string {
	q := url.Values{}
	for n, text := range map[string]string{"state": v.State, "in": url.QueryEscape(v.Queue), "order": v.Order} {
		if text != "" {
			q.Set(n, text)
		}
	}
	q.Set(name, value)
	return "groups?" + q.Encode()
}
