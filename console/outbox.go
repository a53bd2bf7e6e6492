package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/outbox"
)

// Outbox is an outbox that the console shows.
type Outbox struct {
	Name string
	// Inspector reads and changes it; see outbox.Inspector.
	Inspector OutboxInspector
}

// OutboxInspector is what the console needs of an outbox. An [outbox.Inspector] is one.
type OutboxInspector interface {
	Backlog(ctx context.Context) (outbox.Backlog, error)
	Summaries(ctx context.Context, state outbox.State, after outbox.RowID, limit int) ([]outbox.Entry, error)
	Retry(ctx context.Context, rows ...outbox.RowID) (int, error)
	Discard(ctx context.Context, rows ...outbox.RowID) (int, error)
}

// outboxesView is all outboxes.
type outboxesView struct {
	Outboxes []outboxView
}

// outboxView is one outbox.
type outboxView struct {
	Name    string
	Backlog outbox.Backlog
	Wrong   string // why it cannot be read

	// What the page of one outbox shows:

	State   outbox.State
	States  []outbox.State
	Entries []outbox.Entry
	Next    string // the last row, if there are more
	MayAct  bool
	Done    string // what a form has done
}

// Link is the address of the page with another state.
func (v outboxView) Link(state outbox.State) string {
	return "outbox?" + url.Values{"name": {v.Name}, "state": {string(state)}}.Encode()
}

// More is the address of the next entries.
func (v outboxView) More() string {
	return "outbox?" + url.Values{"name": {v.Name}, "state": {string(v.State)}, "after": {v.Next}}.Encode()
}

// CanChange reports whether the entries can be published or discarded: others are published anyway, or already were.
func (v outboxView) CanChange() bool { return v.MayAct && v.State == outbox.StateSetAside }

// Where is what the form carries: the outbox and the state as a query.
func (v outboxView) Where() string {
	return url.Values{"name": {v.Name}, "state": {string(v.State)}}.Encode()
}

// maxEntries is how many entries of an outbox a page shows.
const maxEntries = 100

var outboxStates = []outbox.State{outbox.StateSetAside, outbox.StateReady, outbox.StateDelayed, outbox.StateKept}

// hasOutboxes reports whether there is an outbox now.
func (x *call) hasOutboxes() bool {
	list := x.console.options.Outboxes
	if list == nil {
		return false
	}
	all, err := list(x.r.Context())
	return err != nil || len(all) > 0
}

// outboxes returns the outboxes, and what to call at the end. It waits if too many others use outboxes.
func (x *call) outboxes() (all []Outbox, end func(), err error) {
	ctx, cancel := context.WithTimeout(x.r.Context(), x.console.options.Timeout)
	defer cancel()
	if !x.hasOutboxes() {
		return nil, nil, &fault{status: http.StatusNotFound, text: "There are no outboxes.", hint: "Set outboxes in rehop.yaml, or in the program that serves the console."}
	}
	places := x.console.outboxing
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, &fault{status: http.StatusServiceUnavailable, text: "Too many requests use the outboxes.", hint: "Try again in a moment."}
	}
	if all, err = x.console.options.Outboxes(ctx); err != nil {
		<-places
		return nil, nil, err
	}
	return all, func() { <-places }, nil
}

// outboxNamed is one outbox, and a context for what a page needs of it.
func (x *call) outboxNamed(name string) (Outbox, context.Context, func(), error) {
	all, end, err := x.outboxes()
	if err != nil {
		return Outbox{}, nil, nil, err
	}
	at := slices.IndexFunc(all, func(o Outbox) bool { return o.Name == name })
	if at < 0 {
		end()
		return Outbox{}, nil, nil, &fault{status: http.StatusNotFound, text: fmt.Sprintf("There is no outbox %q.", name)}
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), x.console.options.Timeout)
	return all[at], ctx, func() { cancel(); end() }, nil
}

// outbox shows the backlog of all outboxes, or the entries of one.
func (x *call) outbox() error {
	query := x.r.URL.Query()
	if query.Has("name") {
		return x.showOutbox(query, "")
	}
	all, end, err := x.outboxes()
	if err != nil {
		return err
	}
	defer end()
	return x.show("outboxes", "Outboxes", outboxesView{x.console.backlogs(x.r.Context(), all, x.console.options.Timeout)})
}

// backlogs asks the outboxes, some at the same time and each with its own timeout: a database that does not answer affects no others.
func (c *Console) backlogs(ctx context.Context, all []Outbox, timeout time.Duration) []outboxView {
	views := make([]outboxView, len(all))
	asking := make(chan struct{}, maxWorking)
	var asked sync.WaitGroup
	for i, o := range all {
		asking <- struct{}{}
		asked.Go(func() {
			defer func() { <-asking }()
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			views[i] = outboxView{Name: o.Name, State: outbox.StateSetAside}
			var err error
			if views[i].Backlog, err = o.Inspector.Backlog(ctx); err != nil {
				views[i].Wrong = err.Error()
			}
		})
	}
	asked.Wait()
	return views
}

func (x *call) showOutbox(query url.Values, done string) error {
	v := outboxView{Name: query.Get("name"), State: outbox.State(query.Get("state")), States: outboxStates, MayAct: x.may(Operator), Done: done}
	if v.State == "" {
		v.State = outbox.StateSetAside
	}
	if !slices.Contains(outboxStates, v.State) {
		return &fault{status: http.StatusBadRequest, text: fmt.Sprintf("There is no state %q.", string(v.State))}
	}
	var after outbox.RowID
	if text := query.Get("after"); text != "" {
		var err error
		if after, err = outbox.ParseRowID(text); err != nil {
			return &fault{status: http.StatusBadRequest, text: "The address has a row that cannot be read.", hint: "Open the outbox again."}
		}
	}
	o, ctx, end, err := x.outboxNamed(v.Name)
	if err != nil {
		return err
	}
	defer end()
	if v.Backlog, err = o.Inspector.Backlog(ctx); err == nil {
		v.Entries, err = o.Inspector.Summaries(ctx, v.State, after, maxEntries+1)
	}
	if err != nil {
		return outboxFault(err)
	}
	if len(v.Entries) > maxEntries {
		v.Entries = v.Entries[:maxEntries]
		v.Next = v.Entries[maxEntries-1].Row.String()
	}
	for i := range v.Entries {
		v.Entries[i].Error = x.console.maskText(v.Entries[i].Error)
	}
	return x.show("outbox", "Outbox", v)
}

func outboxFault(err error) error {
	return &fault{status: http.StatusBadGateway, text: "The outbox did not do what the page needs: " + err.Error(), hint: "Check its database, and load the page again."}
}

// changeOutbox publishes entries that were set aside, or discards them.
func (x *call) changeOutbox() error {
	form := x.r.PostForm
	where, err := url.ParseQuery(form.Get("where"))
	action := form.Get("do")
	if err != nil || action != "retry" && action != "discard" {
		return &fault{status: http.StatusBadRequest, text: "The form does not name an outbox and an action.", hint: "Go back to the outbox, and try again."}
	}
	var rows []outbox.RowID
	for _, pick := range form["pick"] {
		row, err := outbox.ParseRowID(pick)
		if err != nil {
			return &fault{status: http.StatusBadRequest, text: "The form has a row that cannot be read."}
		}
		rows = append(rows, row)
	}
	switch {
	case len(rows) == 0:
		return &fault{status: http.StatusBadRequest, text: "No message is selected.", hint: "Go back, and select messages in the first column."}
	case len(rows) > maxEntries:
		return &fault{status: http.StatusBadRequest, text: fmt.Sprintf("%d messages are selected; the most are %d.", len(rows), maxEntries)}
	case action == "discard" && form.Get("sure") != "yes":
		return &fault{status: http.StatusBadRequest, text: "Nothing was discarded: what is discarded was never published, and cannot be restored.", hint: "Go back, and confirm that you want to discard the selected messages."}
	}
	n, err := x.changeRows(where.Get("name"), action, rows)
	if err != nil {
		return err
	}
	did := "published as soon as possible"
	if action == "discard" {
		did = "discarded"
	}
	done := fmt.Sprintf("%d of %d selected messages are %s.", n, len(rows), did)
	if n < len(rows) {
		done += " The others are no longer set aside."
	}
	return x.showOutbox(where, done)
}

// changeRows changes those rows that are still set aside, and returns how many. If there are none, nothing is recorded.
func (x *call) changeRows(name, action string, rows []outbox.RowID) (int, error) {
	o, ctx, end, err := x.outboxNamed(name)
	if err != nil {
		return 0, err
	}
	defer end()
	left, err := stillAside(ctx, o.Inspector, rows)
	if err != nil {
		return 0, outboxFault(err)
	}
	if len(left) == 0 {
		return 0, nil
	}
	var names []string
	for _, row := range left {
		names = append(names, row.String())
	}
	if err := x.record("outbox."+action, o.Name, map[string]any{"rows": names}); err != nil {
		return 0, err
	}
	change := o.Inspector.Retry
	if action == "discard" {
		change = o.Inspector.Discard
	}
	n, err := change(ctx, left...)
	if err != nil {
		return 0, outboxFault(err)
	}
	x.logChange("an outbox was changed", "action", action, "outbox", o.Name, "asked", len(rows), "done", n)
	return n, nil
}

// stillAside are those rows that are still set aside.
func stillAside(ctx context.Context, box OutboxInspector, rows []outbox.RowID) (left []outbox.RowID, err error) {
	byNumber := func(a, b outbox.RowID) int { return cmp.Compare(a.Number, b.Number) }
	last := slices.MaxFunc(rows, byNumber)
	for after := (outbox.RowID{Number: slices.MinFunc(rows, byNumber).Number - 1}); after.Number < last.Number; {
		found, err := box.Summaries(ctx, outbox.StateSetAside, after, maxEntries)
		if err != nil || len(found) == 0 {
			return left, err
		}
		for _, e := range found {
			if slices.Contains(rows, e.Row) {
				left = append(left, e.Row)
			}
		}
		after = found[len(found)-1].Row
	}
	return left, nil
}

// Age is how long the oldest message waits.
func (v outboxView) Age() string { return v.Backlog.Oldest.Round(time.Second).String() }
