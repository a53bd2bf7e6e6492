package console

import (
	"context"
	"encoding/base64"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/admin"
)

// exportCSV writes failed messages as CSV, and returns how many. A body or an error that is not UTF-8 is written as base64.
func exportCSV(ctx context.Context, a *admin.Admin, queue string, filter admin.Filter, mask func(admin.Message) admin.Message, to io.Writer) (n int, err error) {
	out := csv.NewWriter(to)
	out.UseCRLF = true
	if err := out.Write([]string{"id", "queue", "exchange", "key", "kind", "error", "attempts", "replays", "failed_at", "first_failed", "host", "type", "content_type", "headers", "body"}); err != nil {
		return 0, err
	}
	err = a.EachFailed(ctx, queue, 0, filter, func(m admin.Message) error {
		m = mask(m)
		headers := ""
		if len(m.Headers) > 0 {
			headers = valueText(m.Headers)
		}
		row := []string{m.ID, m.Queue, m.Exchange, m.Key, string(m.Kind), m.Error, strconv.Itoa(m.Attempts), strconv.Itoa(m.Replays), stamp(m.FailedAt), stamp(m.FirstFailed),
			m.Host, m.Type, m.ContentType, headers, string(m.Body)}
		for i := range row {
			row[i] = cell(row[i])
		}
		n++
		return out.Write(row)
	})
	if err != nil {
		return n, err
	}
	out.Flush()
	return n, out.Error()
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
