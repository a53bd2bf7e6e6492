package console

import (
	"io"
	"net/http"
	"time"
)

// export is a download of all messages that match, as JSON lines that rehop failed import reads, or as CSV.
func (x *call) export() error {
	query := x.r.URL.Query()
	queue, format := query.Get("queue"), query.Get("format")
	if queue == "" || format != "jsonl" && format != "csv" {
		return &fault{status: http.StatusBadRequest, text: "The address needs a queue and a format, which is jsonl or csv."}
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
	a, ctx, end, err := x.brokerForRun()
	if err != nil {
		return err
	}
	defer end()
	// Errors that come before the first message can still be shown as a page.
	out := &lateWriter{begin: func() io.Writer {
		kind := map[string]string{"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}[format]
		x.attach("failed."+format, kind)
		return x.w
	}}
	n := 0
	if format == "csv" {
		n, err = exportCSV(ctx, a, queue, filter, x.console.mask, out)
	} else {
		n, err = a.Export(ctx, queue, out, filter)
	}
	if err != nil && out.to == nil {
		return err
	}
	if err != nil {
		x.console.options.Logger.Error("console: an export was not finished", "user", x.user.Name, "queue", queue, "written", n, "err", err)
		panic(http.ErrAbortHandler) // a file that is not complete must not look complete
	}
	x.console.options.Logger.Info("console: messages were exported", "user", x.user.Name, "from", x.r.RemoteAddr, "queue", queue, "messages", n)
	_, err = out.Write(nil)
	return err
}

// lateWriter begins the answer with the first bytes.
type lateWriter struct {
	begin func() io.Writer
	to    io.Writer
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if l.to == nil {
		l.to = l.begin()
	}
	return l.to.Write(p)
}
