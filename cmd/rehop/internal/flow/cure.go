package flow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// refusedError is what the broker does not accept, and what to do about it, in the words of the file. The text of the library has the names
// of Go fields.
type refusedError struct {
	text string
	err  error
}

func (e *refusedError) Error() string { return e.text }
func (e *refusedError) Unwrap() error { return e.err }

// differs is AMQP's code for something that exists with other settings.
const differs = 406

// Explain returns an error with what to do in the words of a file, if it is about something that exists with other settings. Other errors
// are returned unchanged.
func Explain(err error) error {
	refused, ok := errors.AsType[*rehop.TopologyError](err)
	if _, done := errors.AsType[*refusedError](err); done || !ok {
		return err
	}
	return explain(refused, "of the flow", "", err)
}

// explainFlow is Explain for a flow of a file.
func explainFlow(file string, f config.Flow, err error) error {
	refused, ok := errors.AsType[*rehop.TopologyError](err)
	if !ok {
		return err
	}
	if f.OrderBy != "" && refused.Argument == "x-delivery-limit" || f.Subscriber.Partitions > 1 && refused.Code == differs {
		return &refusedError{what(refused) + fmt.Sprintf("; a queue that exists cannot get partitions, or another number of them: use a new name for queue in flow %q", f.Name), err}
	}
	return explain(refused, fmt.Sprintf("in flow %q", f.Name), file, err)
}

// explainExchange is Explain for an exchange in the list of a file.
func explainExchange(name string, err error) error {
	refused, ok := errors.AsType[*rehop.TopologyError](err)
	if !ok || refused.Code != differs || refused.Object != "exchange" || refused.Name != name {
		return Explain(err)
	}
	return &refusedError{what(refused) + "; to use it unchanged, remove it from exchanges, and set existing-exchange: true in flows that bind a queue to it", err}
}

// explain returns the error for settings that stand in some place of a file.
func explain(refused *rehop.TopologyError, in, file string, err error) error {
	if refused.Code != differs || refused.Argument == "" {
		return &refusedError{withoutPrefix(refused.Error()), err}
	}
	hint := "; change the setting to what exists, or use another name"
	switch {
	case strings.HasPrefix(refused.Name, "rehop."):
		hint = "; all programs of a virtual host share it, and need the same queue-type in their files"
	case refused.Object == "exchange":
		hint = "; to use it unchanged, set existing-exchange: true " + in
		if refused.Argument == "type" {
			hint += fmt.Sprintf(", or exchange-type: %s", refused.Have)
		}
	case refused.Object == "queue":
		hint = fmt.Sprintf("; to use it unchanged, set existing-queue: true %s; to give it the settings of the file, run: rehop topology migrate %s %s", in, refused.Name, file)
	}
	return &refusedError{strings.TrimSpace(what(refused) + hint), err}
}

// what describes a difference.
func what(r *rehop.TopologyError) string {
	return fmt.Sprintf("%s %q already exists with %s = %s, not %s (%d)", r.Object, r.Name, r.Argument, r.Have, r.Want, r.Code)
}

func withoutPrefix(text string) string {
	for _, prefix := range []string{"rehop: open: ", "rehop: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
