package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
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
	ctx, cancel := context.WithTimeout(triage.FromAddress(x.r.Context(), x.origin()), x.console.options.Timeout)
	store, end, err := x.indexWithin(ctx)
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return store, ctx, func() { end(); cancel() }, nil
}

// indexForRun is index for what takes longer with many messages, and is finished even if the user closes the page.
func (x *call) indexForRun() (*triage.Store, context.Context, func(), error) {
	ctx, finish, err := x.console.runContext(x.r)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx = triage.FromAddress(ctx, x.origin())
	store, end, err := x.indexWithin(ctx)
	if err != nil {
		finish()
		return nil, nil, nil, err
	}
	return store, ctx, func() { end(); finish() }, nil
}

// indexWithin takes one of the places of indexing, until end is called, and opens the index.
func (x *call) indexWithin(ctx context.Context) (store *triage.Store, end func(), err error) {
	c := x.console
	if c.options.Triage == nil {
		return nil, nil, &fault{status: http.StatusNotFound, text: "This console has no index of failed messages, so it has no groups, no search, no runs and no audit.",
			hint: "Set triage in rehop.yaml, or in the program that serves the console. The page Queues leads to the failed messages of each queue."}
	}
	select {
	case c.indexing <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, &fault{status: http.StatusServiceUnavailable, text: "Too many requests use the index of failed messages.", hint: "Try again in a moment."}
	}
	store, err = c.options.Triage(ctx)
	if err == nil && store == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		<-c.indexing
		return nil, nil, &fault{status: http.StatusServiceUnavailable, text: "The index of failed messages cannot be used: " + err.Error(),
			hint: "Load the page again in a moment. The page Queues leads to the failed messages of each queue."}
	}
	return store, func() { <-c.indexing }, nil
}

// origin is the address of who makes a change, for the audit. A proxy that is trusted to name users also names their addresses.
func (x *call) origin() string {
	peer := hostname(x.r.RemoteAddr)
	if x.user.From != "" {
		return x.user.From + " via " + peer
	}
	return peer
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
	case errors.Is(err, admin.ErrTarget):
		f.status, f.text = http.StatusBadRequest, "Nothing was done: "+why
		f.hint = "Go back, and name a queue that a program consumes, or none."
	case errors.Is(err, dialect.ErrNotDurable):
		f.status, f.text = http.StatusConflict, "Nothing was done: "+why
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
func (x *call) actor() string { return x.user.recorded() }

// record writes a change that is not made by the index itself to its audit, before the change. Without an index there is no audit.
func (x *call) record(action, subject string, details any) error {
	if x.console.options.Triage == nil {
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
func (x *call) logChange(action string, more ...any) { x.log(slog.LevelInfo, action, more...) }

// log writes to the log who did something. All but the user is masked, as on the pages: more people read logs than may see the messages.
func (x *call) log(level slog.Level, text string, more ...any) {
	fields := []any{"user", x.actor(), "from", x.r.RemoteAddr}
	for _, field := range more {
		fields = append(fields, x.console.maskField(field))
	}
	x.console.options.Logger.Log(x.r.Context(), level, "console: "+text, fields...)
}
