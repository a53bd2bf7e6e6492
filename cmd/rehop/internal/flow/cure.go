package flow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/topology"
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
	hint := cure(refused.Object, refused.Name, in, file)
	if refused.Object == topology.ExchangeObject && refused.Argument == "type" {
		hint += fmt.Sprintf(", or exchange-type: %s", refused.Have)
	}
	return &refusedError{strings.TrimSpace(what(refused) + "; " + hint), err}
}

// cure is what to do about something that exists with other settings than in some place of a file.
func cure(kind, name, in, file string) string {
	switch {
	case strings.HasPrefix(name, "rehop."):
		return "all programs of a virtual host share it, and need the same queue-type in their files"
	case kind == topology.ExchangeObject:
		return "to use it unchanged, set existing-exchange: true " + in
	case kind == topology.QueueObject:
		return fmt.Sprintf("to use it unchanged, set existing-queue: true %s; to give it the settings of the file, run: rehop topology migrate %s %s", in, name, file)
	}
	return "change the setting to what exists, or use another name"
}

// Cure is what to do about an exchange or a queue of a file that exists with other settings.
func Cure(file *config.File, object topology.Object) string {
	var flows []string
	for _, f := range file.Flows {
		s := f.Subscriber
		if object.Kind == topology.QueueObject && s.Queue == object.Name ||
			object.Kind == topology.ExchangeObject && s.Exchange == object.Name && !s.ExistingExchange {
			flows = append(flows, strconv.Quote(f.Name))
		}
	}
	in := "in flow " + strings.Join(flows, ", ")
	listed := slices.ContainsFunc(file.Exchanges, func(x rehop.Exchange) bool { return x.Name == object.Name })
	hint := cure(object.Kind, object.Name, in, file.Path)
	switch {
	case strings.HasPrefix(object.Name, "rehop."):
	case object.Kind == topology.ExchangeObject && listed && len(flows) == 0:
		return "to use it unchanged, remove it from exchanges"
	case object.Kind == topology.ExchangeObject && listed:
		return hint + ", and remove it from exchanges"
	case object.Kind == topology.QueueObject && len(flows) == 0: // a companion, such as a failed queue
		return fmt.Sprintf("to give it the settings of the file, run: rehop topology migrate %s %s", object.Name, file.Path)
	}
	return hint
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
