package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

// kinds are the kinds of failure, as the form lists them.
func kinds() []string {
	return []string{string(rehop.KindError), string(rehop.KindPermanent), string(rehop.KindDecode), string(rehop.KindTimeout), string(rehop.KindPanic),
		string(rehop.KindCrash), string(rehop.KindDead), string(rehop.KindUnrouted)}
}

// choice is which failed messages a page is about, as the user has written it.
type choice struct {
	Kinds         []string
	Text          string
	Key           string
	IDs           []string
	Headers       []string // as name=value
	Since, Before string
}

// Limits of what a choice can have. A form with all messages of a page selected is below them.
const (
	maxIDs     = 5000
	maxHeaders = 20
)

// choiceOf reads a choice from a query or a form.
func choiceOf(values url.Values) choice {
	c := choice{Kinds: filled(values["kind"]), Text: values.Get("text"), Key: values.Get("key"), IDs: filled(values["id"]), Headers: filled(values["header"]),
		Since: strings.TrimSpace(values.Get("since")), Before: strings.TrimSpace(values.Get("before"))}
	if values.Get("noid") != "" { // an empty id is an empty field of the form
		c.IDs = append(c.IDs, "")
	}
	return c
}

func filled(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
}

// values is the opposite of choiceOf.
func (c choice) values() url.Values {
	v := make(url.Values)
	for name, texts := range map[string][]string{"kind": c.Kinds, "text": {c.Text}, "key": {c.Key}, "id": c.IDs, "header": c.Headers, "since": {c.Since}, "before": {c.Before}} {
		if texts = filled(texts); len(texts) > 0 {
			v[name] = texts
		}
	}
	if slices.Contains(c.IDs, "") {
		v.Set("noid", "1")
	}
	return v
}

// filter returns the filter, and the choice with exact times: "2h" means two hours before now.
func (c choice) filter(now time.Time) (admin.Filter, choice, error) {
	f := admin.Filter{IDs: c.IDs, Text: c.Text, Key: c.Key}
	wrong := func(text string, args ...any) error {
		return &fault{status: http.StatusBadRequest, text: fmt.Sprintf(text, args...)}
	}
	if len(c.IDs) > maxIDs || len(c.Headers) > maxHeaders {
		return f, c, wrong("The filter has %d ids and %d headers; the most are %d ids and %d headers.", len(c.IDs), len(c.Headers), maxIDs, maxHeaders)
	}
	for _, kind := range c.Kinds {
		if !slices.Contains(kinds(), kind) {
			return f, c, wrong("There is no kind %q; the kinds are %s.", kind, strings.Join(kinds(), ", "))
		}
		f.Kinds = append(f.Kinds, rehop.Kind(kind))
	}
	for _, header := range c.Headers {
		name, value, ok := strings.Cut(header, "=")
		if !ok || name == "" {
			return f, c, wrong("The header %q must be like name=value.", header)
		}
		if f.Header == nil {
			f.Header = make(map[string]string)
		}
		f.Header[name] = value
	}
	for _, at := range []struct {
		text *string
		time *time.Time
		name string
	}{{&c.Since, &f.Since, "since"}, {&c.Before, &f.Before, "before"}} {
		if *at.text == "" {
			continue
		}
		t, ok := moment(*at.text, now)
		if !ok {
			return f, c, wrong("%q (%s) is not a time. Write 2h for two hours ago, 2026-01-31, or 2026-01-31T15:04:05Z; without a zone it is UTC.", *at.text, at.name)
		}
		*at.time, *at.text = t, t.UTC().Format(time.RFC3339Nano)
	}
	return f, c, nil
}

// moment reads a time, or a duration before now.
func moment(text string, now time.Time) (time.Time, bool) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), true
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.UTC); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// condition is a line of a choice in words.
type condition struct{ Name, Value string }

// Conditions are what messages must match. None: all messages match.
func (c choice) Conditions() (all []condition) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, condition{name, value})
		}
	}
	add("kind", strings.Join(c.Kinds, " or "))
	add("error contains", c.Text)
	add("routing key", c.Key)
	for _, h := range c.Headers {
		add("header", h)
	}
	add("failed at or after", c.Since)
	add("failed before", c.Before)
	const shown = 5
	switch n := len(c.IDs); {
	case n == 1 && c.IDs[0] == "":
		add("id", "(none)")
	case n > shown:
		add("id", fmt.Sprintf("one of %d ids: %s, …", n, strings.Join(c.IDs[:shown], ", ")))
	default:
		add("id", strings.Join(c.IDs, " or "))
	}
	return all
}

// Has reports whether a kind is chosen.
func (c choice) Has(kind string) bool { return slices.Contains(c.Kinds, kind) }

// Fields are the texts of the form's fields for ids or headers: those that are set, or an empty one.
func (c choice) Fields(texts []string) []string {
	if texts = filled(texts); len(texts) > 0 {
		return texts
	}
	return []string{""}
}
