package console

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/rehop/rehop/admin"
)

// source is where failed messages are read: the failed queue of a queue or, of programs that do not use rehop, an error queue.
type source struct {
	Queue string // whose failed queue it is, or the error queue itself
	Other bool   // it is an error queue
}

// sourceOf reads a source from a query or a form. Forms have the name of the queue escaped, because browsers would change bytes that are not UTF-8.
func sourceOf(values url.Values) (source, error) {
	s := source{Queue: values.Get("queue"), Other: values.Get("as") == "error-queue"}
	if in, err := url.QueryUnescape(values.Get("in")); err == nil && s.Queue == "" {
		s.Queue = in
	}
	if s.Queue == "" {
		return s, &fault{status: http.StatusBadRequest, text: "The address has no name of a queue.", hint: "Choose one on the page Queues."}
	}
	return s, nil
}

// add makes values name the source.
func (s source) add(values url.Values) url.Values {
	values.Set("queue", s.Queue)
	if s.Other {
		values.Set("as", "error-queue")
	}
	return values
}

// Where names the source in a query.
func (s source) Where() string { return s.add(url.Values{}).Encode() }

// List is the address of the list of its messages.
func (s source) List() string { return "failed?" + s.Where() }

// message is the address of a page about one of its messages.
func (s source) message(page, id string) string {
	return page + "?" + s.add(url.Values{"id": {id}}).Encode()
}

// letterBox is what the console does with the messages of a source.
type letterBox interface {
	Each(ctx context.Context, limit int, filter admin.Filter, see func(admin.Message) error) error
	Count(ctx context.Context, filter admin.Filter) (admin.Count, error)
	Delayed(ctx context.Context) (int, error)
	Depth(ctx context.Context) (int, error)
	Export(ctx context.Context, w io.Writer, filter admin.Filter) (int, error)
	Replay(ctx context.Context, to string, o admin.Options) (admin.Progress, error)
	Discard(ctx context.Context, o admin.Options) (admin.Progress, error)
}

func (s source) in(a *admin.Admin) letterBox {
	if s.Other {
		return a.ErrorQueue(s.Queue)
	}
	return failedQueue{a, s.Queue}
}

// failedQueue is the failed queue of a queue.
type failedQueue struct {
	admin *admin.Admin
	of    string
}

func (q failedQueue) Each(ctx context.Context, limit int, filter admin.Filter, see func(admin.Message) error) error {
	return q.admin.EachFailed(ctx, q.of, limit, filter, see)
}

func (q failedQueue) Count(ctx context.Context, filter admin.Filter) (admin.Count, error) {
	return q.admin.CountFailed(ctx, q.of, filter)
}

func (q failedQueue) Delayed(ctx context.Context) (int, error) { return q.admin.Delayed(ctx, q.of) }

func (q failedQueue) Depth(ctx context.Context) (int, error) {
	of, err := q.admin.Queue(ctx, q.of)
	return of.Failed, err
}

func (q failedQueue) Export(ctx context.Context, w io.Writer, filter admin.Filter) (int, error) {
	return q.admin.Export(ctx, q.of, w, filter)
}

func (q failedQueue) Replay(ctx context.Context, to string, o admin.Options) (admin.Progress, error) {
	o.To = to
	return q.admin.Replay(ctx, q.of, o)
}

func (q failedQueue) Discard(ctx context.Context, o admin.Options) (admin.Progress, error) {
	return q.admin.Discard(ctx, q.of, o)
}
