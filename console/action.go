package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
)

// confirmView asks whether messages are to be replayed or discarded.
type confirmView struct {
	Action string // replay or discard
	Source source
	Choice choice
	Count  admin.Count
	// Where is what the form carries: the queue and the choice as a query, which survives a form whatever bytes it has.
	Where string
	Wrong string
	// Masked: an export cannot have all of the messages.
	Masked bool
}

// Back is the address of the list, with the choice as its filter.
func (v confirmView) Back() string { return "failed?" + v.Where }

// Export is the address of a download of the messages.
func (v confirmView) Export() string { return "export?" + v.Where + "&format=jsonl" }

// outcomeView is what a replay or discard has done.
type outcomeView struct {
	Action   string
	Source   source
	Choice   choice
	Asked    int
	Progress admin.Progress
	Error    string
	Took     time.Duration
}

// pickOf is the id of a message as a value of a form: browsers do not keep bytes that are not UTF-8.
func pickOf(id string) string { return url.QueryEscape(id) }

// target reads the source and the choice of a form.
func (x *call) target() (from source, c choice, filter admin.Filter, err error) {
	where, err := url.ParseQuery(x.r.PostForm.Get("where"))
	if err == nil {
		from, err = sourceOf(where)
	}
	if err != nil {
		return from, c, filter, &fault{status: http.StatusBadRequest, text: "The form does not name a queue.", hint: "Go back to the list, and try again."}
	}
	filter, c, err = choiceOf(where).filter(time.Now())
	return from, c, filter, err
}

// confirm counts the messages that are to be replayed or discarded, and asks.
func (x *call) confirm() error {
	form := x.r.PostForm
	from, c, _, err := x.target()
	if err != nil {
		return err
	}
	action, scope, _ := strings.Cut(form.Get("do"), "-")
	if action != "replay" && action != "discard" || scope != "selected" && scope != "all" {
		return &fault{status: http.StatusBadRequest, text: "The form does not name an action.", hint: "Go back to the list, and try again."}
	}
	if scope == "selected" {
		c = choice{}
		for _, pick := range form["pick"] {
			id, err := url.QueryUnescape(pick)
			if err != nil {
				return &fault{status: http.StatusBadRequest, text: "The form has an id that cannot be read."}
			}
			c.IDs = append(c.IDs, id)
		}
		if len(c.IDs) == 0 {
			return &fault{status: http.StatusBadRequest, text: "No message is selected.", hint: "Go back, and select messages in the first column."}
		}
	}
	return x.ask(http.StatusOK, action, from, c, "")
}

// ask shows the page that asks for a confirmation.
func (x *call) ask(status int, action string, from source, c choice, wrong string) error {
	filter, c, err := c.filter(time.Now()) // from now on the times are fixed
	if err != nil {
		return err
	}
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	defer end()
	n, err := from.in(a).Count(ctx, filter)
	if err != nil {
		return err
	}
	title := "Replay"
	if action == "discard" {
		title = "Discard"
	}
	return x.showStatus(status, "confirm", title, confirmView{Action: action, Source: from, Choice: c, Count: n, Where: from.add(c.values()).Encode(), Wrong: wrong, Masked: x.console.options.Mask != nil})
}

// maxRate is how many messages per second a user can ask for. More is no limit at all.
const maxRate = 1_000_000

func (x *call) replay() error {
	o := admin.Options{}
	var err error
	if o.Rate, err = numberOf(x.r.PostForm.Get("rate"), maxRate, "rate", "messages per second"); err != nil {
		return err
	}
	to := strings.TrimSpace(x.r.PostForm.Get("to"))
	return x.act("replay", to, func(ctx context.Context, box letterBox, filter admin.Filter, limit int) (admin.Progress, error) {
		o.Filter, o.Limit = filter, limit
		return box.Replay(ctx, to, o)
	})
}

// discard deletes messages. If there are several, the user has typed how many.
func (x *call) discard() error {
	from, c, _, err := x.target()
	if err != nil {
		return err
	}
	form := x.r.PostForm
	if count := form.Get("count"); count != "1" && strings.ReplaceAll(strings.TrimSpace(form.Get("typed")), ",", "") != count {
		return x.ask(http.StatusBadRequest, "discard", from, c, "Type the number of messages to confirm that you want to discard them.")
	}
	return x.act("discard", "", func(ctx context.Context, box letterBox, filter admin.Filter, limit int) (admin.Progress, error) {
		return box.Discard(ctx, admin.Options{Filter: filter, Limit: limit})
	})
}

// act replays or discards the messages that were counted, and no others: not those that failed later.
func (x *call) act(action, to string, do func(context.Context, letterBox, admin.Filter, int) (admin.Progress, error)) error {
	form := x.r.PostForm
	from, c, filter, err := x.target()
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(form.Get("count"))
	if err != nil || count < 1 {
		return &fault{status: http.StatusBadRequest, text: "There is nothing to " + action + ".", hint: "Go back to the list, and try again."}
	}
	var latest time.Time
	if text := form.Get("latest"); text != "" {
		if latest, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return &fault{status: http.StatusBadRequest, text: "The form has a time that cannot be read.", hint: "Go back to the list, and try again."}
		}
	}
	a, ctx, end, err := x.brokerForRun()
	if err != nil {
		return err
	}
	defer end()
	details := map[string]any{"filter": exactTexts(c.values()), "messages": count}
	line := []any{"action", action, "queue", from.Queue, "filter", c.values(), "asked", count}
	if to != "" {
		details["to"], line = exactText(to), append(line, "to", to)
	}
	if err := x.record("failed."+action, from.Queue, details); err != nil {
		return err
	}
	began := time.Now()
	done, err := do(ctx, from.in(a), filter.UpTo(admin.Count{Messages: count, Latest: latest}), count)
	v := outcomeView{Action: action, Source: from, Choice: c, Asked: count, Progress: done, Took: time.Since(began).Round(time.Millisecond)}
	status := http.StatusOK
	line = append(line, "done", done.Done)
	if err != nil {
		f := faultOf(err)
		status, v.Error = f.status, f.text
		x.log(slog.LevelError, "messages were not all changed", append(line, "err", err)...)
	} else {
		x.logChange("messages were changed", line...)
	}
	title := "Replayed"
	if action == "discard" {
		title = "Discarded"
	}
	return x.showStatus(status, "outcome", title, v)
}
