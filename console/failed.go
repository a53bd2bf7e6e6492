package console

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/rehop/rehop/admin"
)

// failedView is the failed messages of a queue.
type failedView struct {
	Source   source
	Choice   choice
	Wrong    *fault // what is wrong with the choice
	Kinds    []string
	Filter   string // the choice as a query, for links and forms
	Messages []failedRow
	More     bool // there are more messages that match
	Matching int  // how many match; -1 if that is not known
	Total    int  // messages in the failed queue; -1 if that is not known
	Delayed  int  // messages that nobody can read now; -1 if that is not known
	Limit    int
	Limits   []int
	MayAct   bool
	Masked   bool // an export cannot have all of the messages
}

// failedRow is a message in the list, without its body.
type failedRow struct {
	ID, Key, Kind, Error string
	Cut                  bool // the error is longer
	Attempts, Replays    int
	FailedAt             time.Time
	Size                 int
	Queue                string // in which it failed, if it is another one
	RecordedBy           string // in an error queue: the program whose record it has
}

// rowLimits are how many messages a list can have.
func rowLimits() []int { return []int{50, 200, 1000} }

// maxErrorShown is how many bytes of an error a list shows.
const maxErrorShown = 300

func (x *call) failed() error {
	query := x.r.URL.Query()
	from, err := sourceOf(query)
	if err != nil {
		return err
	}
	v := failedView{Source: from, Choice: choiceOf(query), Kinds: kinds(), Limits: rowLimits(), Limit: rowLimits()[0], Matching: -1, Total: -1, MayAct: x.may(Operator), Masked: x.console.options.Mask != nil}
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && slices.Contains(v.Limits, n) {
		v.Limit = n
	}
	v.Filter = v.Choice.values().Encode()
	filter, _, err := v.Choice.filter(time.Now())
	if errors.As(err, &v.Wrong) {
		return x.showStatus(v.Wrong.status, "failed", "Failed messages", v)
	}
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	defer end()
	box := v.Source.in(a)
	if v.Delayed, err = box.Delayed(ctx); errors.Is(err, admin.ErrNoQueue) || errors.Is(err, admin.ErrNoLayout) {
		return err
	} else if err != nil {
		v.Delayed = -1 // the messages can be read without the management API
	}
	seen, limit := 0, v.Limit+1
	if query.Get("count") != "" {
		limit = 0
	}
	err = box.Each(ctx, limit, filter, func(m admin.Message) error {
		if seen++; seen <= v.Limit {
			v.Messages = append(v.Messages, rowOfMessage(m, v.Source, x.console.maskText(m.Error)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.More = seen > v.Limit
	if !v.More || limit == 0 {
		v.Matching = seen
	}
	if total, err := box.Depth(ctx); err == nil {
		v.Total = total
	}
	return x.show("failed", "Failed messages", v)
}

// rowOfMessage keeps nothing of the message but what is shown.
func rowOfMessage(m admin.Message, from source, why string) failedRow {
	r := failedRow{ID: m.ID, Key: m.Key, Kind: string(m.Kind), Attempts: m.Attempts, Replays: m.Replays, FailedAt: m.FailedAt, Size: len(m.Body)}
	r.Error, r.Cut = cut(why, maxErrorShown)
	if m.Queue != from.Queue {
		r.Queue = m.Queue
	}
	if from.Other {
		r.RecordedBy = m.RecordedBy
	}
	return r
}

// Link is the page with another value in its query.
func (v failedView) Link(name, value string) string {
	q := v.Source.add(v.Choice.values())
	q.Set("limit", strconv.Itoa(v.Limit))
	q.Set(name, value)
	return "failed?" + q.Encode()
}

// Export is the address of a download of all messages that match.
func (v failedView) Export(format string) string {
	q := v.Source.add(v.Choice.values())
	q.Set("format", format)
	return "export?" + q.Encode()
}

// Message is the address of a message's page.
func (v failedView) Message(id string) string { return v.Source.message("message", id) }
