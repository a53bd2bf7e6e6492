package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/triage"
)

// searchView is a page of the result of a search.
type searchView struct {
	Query    string
	Wrong    *queryFault
	First    bool // it is the first page, which has the count
	Result   triage.Result
	Messages []foundRow
	MayAct   bool
}

// foundRow is a message in the result.
type foundRow struct {
	triage.Message
	Cut bool // the error is longer
}

// queryFault is what is wrong with a query, with the place in it.
type queryFault struct {
	Before, At, After string // the query, split at the place
	Column            int
	Problem, Hint     string
}

// wrongQuery explains an error of the language.
func wrongQuery(err error) *queryFault {
	wrong, ok := errors.AsType[*triage.QueryError](err)
	if !ok {
		return &queryFault{Problem: err.Error()}
	}
	f := &queryFault{Column: wrong.Column, Problem: wrong.Problem, Hint: wrong.Hint}
	rest := wrong.Query
	for range wrong.Column - 1 {
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	f.Before = wrong.Query[:len(wrong.Query)-len(rest)]
	_, size := utf8.DecodeRuneInString(rest)
	f.At, f.After = rest[:size], rest[size:]
	return f
}

func (x *call) search() error {
	query := x.r.URL.Query()
	v := searchView{Query: strings.TrimSpace(query.Get("q")), First: query.Get("after") == "", MayAct: x.may(Operator)}
	after, err := x.after()
	if err != nil {
		return err
	}
	q, err := triage.ParseQuery(v.Query, time.Now())
	if err != nil {
		v.Wrong = wrongQuery(err)
		v.Query = strings.ToValidUTF8(v.Query, "\ufffd")
		if _, _, end, err := x.index(); err != nil {
			return err
		} else {
			end()
		}
		return x.showStatus(http.StatusBadRequest, "search", "Search", v)
	}
	if v.Result, err = x.searchPage(q, triage.Page{After: after}); err != nil {
		return err
	}
	for _, m := range v.Result.Messages {
		r := foundRow{Message: x.console.maskIndexed(m)}
		r.Error, r.Cut = cut(r.Error, maxErrorShown)
		v.Messages = append(v.Messages, r)
	}
	return x.show("search", "Search", v)
}

// Page is the address of the page that begins after a place, or of the first one.
func (v searchView) Page(after string) string {
	q := url.Values{"q": {v.Query}}
	if after != "" {
		q.Set("after", after)
	}
	return "search?" + q.Encode()
}

// Export is the address of a download of all messages that match.
func (v searchView) Export(format string) string {
	return "found.export?" + url.Values{"q": {v.Query}, "format": {format}}.Encode()
}
