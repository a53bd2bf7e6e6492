package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

// choice is the flags that select failed messages.
type choice struct {
	ids, kinds, headers []string
	text, key           string
	since, before       string
	younger, older      time.Duration
}

// kinds are the kinds of failure.
var kinds = []string{"error", "permanent", "decode", "timeout", "panic", "crash", "dead", "unrouted"}

func (ch *choice) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&ch.ids, "id", nil, "only messages with one of these ids")
	flags.StringSliceVar(&ch.kinds, "kind", nil, "only failures of these kinds: "+strings.Join(kinds, ", "))
	flags.StringVar(&ch.text, "text", "", "only failures whose error contains this, ignoring case")
	flags.StringVar(&ch.key, "key", "", "only messages with this routing key; a * at its end matches anything")
	flags.StringArrayVar(&ch.headers, "header", nil, "only messages with this header, as name=value; may be given more than once, then all must match")
	flags.StringVar(&ch.since, "since", "", "only failures at this time or later, as in 2026-01-31T15:04:05Z or 2026-01-31")
	flags.StringVar(&ch.before, "before", "", "only failures before this time; messages without a time are left out")
	flags.DurationVar(&ch.younger, "younger", 0, "only failures of the last duration, as in 90m")
	flags.DurationVar(&ch.older, "older", 0, "only failures that are older than this duration, as in 90m; messages without a time are left out")
}

// isSet reports whether the flags select some of the messages.
func (ch *choice) isSet() bool {
	return len(ch.ids)+len(ch.kinds)+len(ch.headers) > 0 || ch.text+ch.key+ch.since+ch.before != "" || ch.younger != 0 || ch.older != 0
}

func (ch *choice) filter(now time.Time) (admin.Filter, error) {
	f := admin.Filter{IDs: ch.ids, Text: ch.text, Key: ch.key}
	for _, kind := range ch.kinds {
		if !slices.Contains(kinds, kind) {
			return f, usage("--kind %s: there is no such kind; the kinds are %s", kind, strings.Join(kinds, ", "))
		}
		f.Kinds = append(f.Kinds, rehop.Kind(kind))
	}
	var err error
	if f.Since, err = moment("--since", ch.since, "--younger", ch.younger, now); err != nil {
		return f, err
	}
	if f.Before, err = moment("--before", ch.before, "--older", ch.older, now); err != nil {
		return f, err
	}
	if f.Header, err = pairs("--header", ch.headers); err != nil {
		return f, err
	}
	return f, nil
}

// moment returns a time that is given directly or as a duration before now. Zero: neither is given.
func moment(flag, text, agoFlag string, ago time.Duration, now time.Time) (time.Time, error) {
	switch {
	case ago < 0:
		return time.Time{}, usage("%s %v must not be negative", agoFlag, ago)
	case text != "" && ago > 0:
		return time.Time{}, usage("%s and %s mean the same; use one of them", flag, agoFlag)
	case ago > 0:
		return now.Add(-ago), nil
	case text == "":
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s %q is not a time; write 2026-01-31T15:04:05Z, or 2026-01-31T15:04:05 or 2026-01-31 for this machine's time zone", flag, text)
}

func pairs(flag string, texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("%s %q must be like name=value", flag, text)
		}
		all[name] = value
	}
	return all, nil
}
