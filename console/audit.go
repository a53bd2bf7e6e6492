package console

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/rehop/rehop/triage"
)

// auditView is a page of the audit.
type auditView struct {
	Records  []auditRow
	First    bool
	Next     int64 // the number before which the next page begins; 0: there is none
	Verified bool
	Head     triage.Head
	Broken   string // what is wrong with the chain
}

type auditRow struct {
	triage.Record
	Text string // the details
	Path string // of the page about the subject
}

// recordsShown is how many records a page has.
const recordsShown = 100

func (x *call) audit() error {
	query := x.r.URL.Query()
	v := auditView{First: query.Get("before") == ""}
	before, err := strconv.ParseInt(query.Get("before"), 10, 64)
	if !v.First && (err != nil || before < 1) {
		return &fault{status: http.StatusBadRequest, text: "The address has a number of a record that cannot be read.", hint: "Open the page Audit again."}
	}
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	if query.Get("verify") != "" {
		v.Verified = true
		if v.Head, err = store.VerifyAudit(ctx, triage.Head{}); errors.Is(err, triage.ErrAuditBroken) {
			v.Broken = err.Error()
		} else if err != nil {
			return ofIndex(err)
		}
	}
	records, err := store.AuditRecords(ctx, before, recordsShown)
	if err != nil {
		return ofIndex(err)
	}
	for _, r := range records {
		row := auditRow{Record: r, Text: x.console.maskJSON(r.Details)}
		switch r.Action {
		case "group.set":
			row.Path = "group"
		case "run.start", "run.paused", "run.running", "run.stopped":
			row.Path = "run"
		}
		v.Records = append(v.Records, row)
	}
	if n := len(records); n == recordsShown && records[n-1].Number > 1 {
		v.Next = records[n-1].Number
	}
	return x.show("audit", "Audit", v)
}
