package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/rehop/rehop/triage"
)

// hasIndex reports whether there is an index of failed messages now.
func (x *call) hasIndex() bool {
	open := x.console.options.Triage
	if open == nil {
		return false
	}
	store, err := open(x.r.Context())
	return err == nil && store != nil
}

// index returns the index of failed messages, a context for what a page needs, and what to call at the end. It waits if too many others
// use the index.
func (x *call) index() (*triage.Store, context.Context, func(), error) {
	c := x.console
	if c.options.Triage == nil {
		return nil, nil, nil, &fault{status: http.StatusNotFound, text: "This console has no index of failed messages, so it has no groups, no search, no runs and no audit.",
			hint: "Set triage in rehop.yaml, or Options.Triage of package console. The page Queues leads to the failed messages of each queue."}
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), c.options.Timeout)
	select {
	case c.indexing <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, nil, nil, &fault{status: http.StatusServiceUnavailable, text: "Too many requests use the index of failed messages.", hint: "Try again in a moment."}
	}
	end := func() { <-c.indexing; cancel() }
	store, err := c.options.Triage(ctx)
	if err == nil && store == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		end()
		return nil, nil, nil, &fault{status: http.StatusServiceUnavailable, text: "The index of failed messages cannot be used: " + err.Error(),
			hint: "Load the page again in a moment. The page Queues leads to the failed messages of each queue."}
	}
	return store, ctx, end, nil
}

// place is where a page of a list of the index ends.
var place = regexp.MustCompile(`^-?[0-9a-z]{1,12}\.-?[0-9a-z]{1,12}$`)

// after returns where the page of a list begins; empty: at the beginning.
func (x *call) after() (string, error) {
	after := x.r.URL.Query().Get("after")
	if after != "" && !place.MatchString(after) {
		return "", &fault{status: http.StatusBadRequest, text: "The address has a place in the list that cannot be read.", hint: "Begin with the first page."}
	}
	return after, nil
}

// indexError is an error of the index, so that it is not taken for one of the broker.
type indexError struct{ error }

func (e indexError) Unwrap() error { return e.error }

// ofIndex marks an error of the index.
func ofIndex(err error) error {
	if err == nil {
		return nil
	}
	return indexError{err}
}

// indexFault explains an error of the index. It is nil for other errors.
func indexFault(err error) *fault {
	if _, ok := errors.AsType[indexError](err); !ok {
		return nil
	}
	why := strings.TrimPrefix(err.Error(), "triage: ")
	f := &fault{status: http.StatusInternalServerError, text: "The index of failed messages did not do what the page needs: " + why}
	switch {
	case errors.Is(err, triage.ErrNotFound):
		f.status, f.text = http.StatusNotFound, "It is not in the index: "+why
		f.hint = "It may have been deleted because nothing has happened to it for a long time."
	case errors.Is(err, triage.ErrNothingToDo):
		f.status, f.text = http.StatusConflict, "Nothing was done: "+why
		f.hint = "Others may have replayed or discarded the messages meanwhile. Search again to see their states."
	case errors.Is(err, triage.ErrRunEnded):
		f.status, f.text = http.StatusConflict, "Nothing was changed: "+why
	case errors.Is(err, triage.ErrMaskMoved):
		f.status, f.text = http.StatusBadRequest, "The edit cannot be used: "+why
		f.hint = "Go back, and leave each mask in its place, or replace it by a value."
	case errors.Is(err, context.DeadlineExceeded):
		f.status, f.text = http.StatusGatewayTimeout, "The index of failed messages did not answer in time: "+why
		f.hint = "Load the page again. A search for fewer messages, such as one with since:2h, takes less time."
	}
	return f
}

// actor is who the audit names.
func (x *call) actor() string { return cmp.Or(x.user.Name, x.user.Role.String()) }

// record writes a change that is not made by the index itself to its audit, before the change. Without an index there is no audit.
func (x *call) record(action, subject string, details any) error {
	if !x.hasIndex() {
		return nil
	}
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	if _, err := store.Audit(ctx, triage.Entry{Actor: x.actor(), Action: action, Subject: subject, Details: details}); err != nil {
		return &fault{status: http.StatusInternalServerError, text: fmt.Sprintf("Nothing was changed, because it cannot be recorded in the audit: %v", err), hint: "Check the database of the index, and try again."}
	}
	return nil
}

// logChange writes a change to the log.
func (x *call) logChange(action string, more ...any) {
	x.console.options.Logger.Info("console: "+action, append([]any{"user", x.user.Name, "from", x.r.RemoteAddr}, more...)...)
}
