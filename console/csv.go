package console

import (
	"encoding/base64"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/triage"
)

// csvFile writes failed messages as CSV. A text that is not UTF-8 is written as base64.
type csvFile struct {
	out     *csv.Writer
	indexed bool // the messages are of the index, which knows more about them
	written int
}

// newCSV begins a file.
func newCSV(to io.Writer, indexed bool) (*csvFile, error) {
	f := &csvFile{out: csv.NewWriter(to), indexed: indexed} // the ends of lines in bodies stay as they are
	heading := []string{"id", "queue", "exchange", "key", "kind", "error", "attempts", "replays", "failed_at", "first_failed", "host", "type", "content_type", "headers", "body"}
	if indexed {
		heading = append([]string{"ref", "state", "group", "run", "changed", "failed_queue", "version"}, heading...)
	}
	return f, f.out.Write(heading)
}

func (f *csvFile) write(m triage.Message) error {
	headers := ""
	if len(m.Headers) > 0 {
		headers = valueText(m.Headers)
	}
	row := []string{m.ID, m.Queue, m.Exchange, m.Key, m.Kind, m.Error, strconv.Itoa(m.Attempts), strconv.Itoa(m.Replays), stamp(m.FailedAt), stamp(m.FirstFailed),
		m.Host, m.Type, m.ContentType, headers, string(m.Body)}
	if f.indexed {
		row = append([]string{m.Ref, string(m.State), m.Group, m.Run, stamp(m.Changed), m.FailedQueue, m.Version}, row...)
	}
	for i := range row {
		row[i] = cell(row[i])
	}
	f.written++
	return f.out.Write(row)
}

// end writes what is buffered.
func (f *csvFile) end() error {
	f.out.Flush()
	return f.out.Error()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// cell is a text that a spreadsheet shows and does not run: it takes a text that begins with one of these characters as a formula.
func cell(text string) string {
	if !utf8.ValidString(text) {
		return "base64:" + base64.StdEncoding.EncodeToString([]byte(text))
	}
	if begin := strings.TrimLeft(text, " \u00a0"); begin != "" && strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", []rune(begin)[0]) {
		if _, err := strconv.ParseFloat(text, 64); err != nil { // a negative number is no formula
			return "'" + text
		}
	}
	return text
}
