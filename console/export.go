package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/triage"
)

// export is a download of all messages that match, as JSON lines that rehop failed import reads, or as CSV.
func (x *call) export() error {
	query := x.r.URL.Query()
	from, err := sourceOf(query)
	if err != nil {
		return err
	}
	format := query.Get("format")
	if format != "jsonl" && format != "csv" {
		return &fault{status: http.StatusBadRequest, text: "The address needs a format, which is jsonl or csv."}
	}
	if format == "jsonl" && x.console.options.Mask != nil {
		return &fault{status: http.StatusForbidden, text: "This console masks messages, so it does not export them as JSON lines: what is masked would be lost when they are imported.",
			hint: "Export CSV, or use the command rehop failed export."}
	}
	filter, _, err := choiceOf(query).filter(time.Now())
	if err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		return nil
	}
	out := x.exportTo("failed", format)
	n, err := x.eachFailed(from, filter, format, out)
	return x.exported(out, n, err, "queue", from.Queue)
}

// eachFailed writes all messages of a queue that match a filter, and returns how many. Until it returns, nobody else can read the queue.
func (x *call) eachFailed(from source, filter admin.Filter, format string, out io.Writer) (int, error) {
	a, ctx, end, err := x.brokerForRun()
	if err != nil {
		return 0, err
	}
	defer end()
	if format == "csv" {
		return x.exportCSV(ctx, a, from, filter, out)
	}
	return from.in(a).Export(ctx, out, filter)
}

// exportCSV writes failed messages of a queue as CSV, and returns how many.
func (x *call) exportCSV(ctx context.Context, a *admin.Admin, from source, filter admin.Filter, out io.Writer) (int, error) {
	file, err := newCSV(out, false)
	if err != nil {
		return 0, err
	}
	err = from.in(a).Each(ctx, 0, filter, func(m admin.Message) error {
		return file.write(triage.FromFailed(from.Queue, x.console.mask(m)))
	})
	if err == nil {
		err = file.end()
	}
	return file.written, err
}

// exportFound is a download of all messages of the index that match a query, as JSON lines or as CSV. It reads a page at a time, so that a slow download
// keeps nobody from the index.
func (x *call) exportFound() error {
	query := x.r.URL.Query()
	format := query.Get("format")
	if format != "jsonl" && format != "csv" {
		return &fault{status: http.StatusBadRequest, text: "The address needs a format, which is jsonl or csv."}
	}
	q, err := triage.ParseQuery(strings.TrimSpace(query.Get("q")), time.Now())
	if err != nil {
		return &fault{status: http.StatusBadRequest, text: "The query cannot be read: " + err.Error(), hint: "Correct it on the page Search."}
	}
	if x.r.Method == http.MethodHead {
		return nil
	}
	c := x.console
	select {
	case c.exporting <- struct{}{}:
		defer func() { <-c.exporting }()
	default:
		return &fault{status: http.StatusServiceUnavailable, text: "Too many exports are being downloaded.", hint: "Try again when one of them has ended."}
	}
	out := x.exportTo("found", format)
	n, err := x.eachFound(q, format, out)
	return x.exported(out, n, err, "query", query.Get("q"))
}

// eachFound writes all messages that match a query, and returns how many.
func (x *call) eachFound(q triage.Query, format string, out io.Writer) (n int, err error) {
	var file *csvFile
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for page := (triage.Page{Limit: exportPage, Whole: true}); ; {
		found, err := x.searchPage(q, page)
		if err != nil {
			return n, err
		}
		if format == "csv" && file == nil {
			if file, err = newCSV(out, true); err != nil {
				return n, err
			}
		}
		for _, m := range found.Messages {
			m = x.console.maskIndexed(m)
			if file != nil {
				err = file.write(m)
			} else {
				err = lines.Encode(m)
			}
			if err != nil {
				return n, err
			}
			n++
		}
		if file != nil {
			err = file.end()
		}
		if page.After = found.Next; err != nil || found.Next == "" {
			return n, err
		}
	}
}

// exportPage is how many messages an export reads together.
const exportPage = 200

// searchPage reads a page of a search.
func (x *call) searchPage(q triage.Query, page triage.Page) (triage.Result, error) {
	store, ctx, end, err := x.index()
	if err != nil {
		return triage.Result{}, err
	}
	defer end()
	found, err := store.Search(ctx, q, page)
	return found, ofIndex(err)
}

// exportTo is where an export is written. Errors that come before the first bytes are sent can still be shown as a page.
func (x *call) exportTo(name, format string) *exportFile {
	return &exportFile{call: x, name: name + "." + format, kind: map[string]string{"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}[format]}
}

// exported ends an export.
func (x *call) exported(out *exportFile, n int, err error, what, of string) error {
	if err == nil {
		err = out.end()
	}
	if err != nil && !out.begun {
		return err
	}
	if err != nil {
		x.log(slog.LevelError, "an export was not finished", what, of, "written", n, "err", err)
		panic(http.ErrAbortHandler) // a file that is not complete must not look complete
	}
	x.log(slog.LevelInfo, "messages were exported", what, of, "messages", n)
	return nil
}

// maxAhead is how many bytes of an export are read before they are sent. What fits keeps others from a failed queue no longer than it takes to read it,
// however slow the client is.
const maxAhead = 4 << 20

// exportFile is the answer with an export.
type exportFile struct {
	call       *call
	name, kind string
	ahead      []byte // was written, and is not sent yet
	begun      bool   // something was sent
}

func (f *exportFile) Write(p []byte) (int, error) {
	if len(f.ahead)+len(p) <= maxAhead {
		f.ahead = append(f.ahead, p...)
		return len(p), nil
	}
	if err := f.end(); err != nil {
		return 0, err
	}
	return len(p), f.call.send(p)
}

// end sends what is not sent yet.
func (f *exportFile) end() error {
	if !f.begun {
		f.begun = true
		f.call.attach(f.name, f.kind)
	}
	err := f.call.send(f.ahead)
	f.ahead = f.ahead[:0]
	return err
}

const (
	// maxPiece is how many bytes of a download are sent at a time.
	maxPiece = 1 << 20
	// pieceWrite is how long a client may take to accept a piece. One that reads nothing does not hold what the download needs.
	pieceWrite = 10 * time.Second
)

// send sends a part of a download.
func (x *call) send(body []byte) error {
	out := http.NewResponseController(x.w)
	for piece := range slices.Chunk(body, maxPiece) {
		_ = out.SetWriteDeadline(time.Now().Add(pieceWrite)) // not every server has deadlines
		if _, err := x.w.Write(piece); err != nil {
			return fmt.Errorf("send to the client: %w", err)
		}
	}
	return nil
}
