package fleets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/integration/lab"
)

// definitions is what the management API shows of a virtual host.
type definitions struct {
	Exchanges []struct {
		Name, Type        string
		Durable, Internal bool
		AutoDelete        bool `json:"auto_delete"`
		Arguments         map[string]any
	}
	Queues []struct {
		Name       string
		Durable    bool
		AutoDelete bool `json:"auto_delete"`
		Arguments  map[string]any
	}
	Bindings []struct {
		Source, Destination string
		Key                 string `json:"routing_key"`
		Arguments           map[string]any
	}
}

func define(r *lab.Rabbit) (d definitions) {
	r.API("GET", "/api/definitions/"+r.Vhost, nil, &d)
	return d
}

// queues are the names of the queues.
func (d definitions) queues() (names []string) {
	for _, q := range d.Queues {
		names = append(names, q.Name)
	}
	return names
}

// lines is a line of text for each object; the names of those that belong to rehop alone come first in their lines.
func (d definitions) lines() (all []string) {
	for _, x := range d.Exchanges {
		all = append(all, fmt.Sprintf("%s: exchange of type %s, durable %v, auto-delete %v, internal %v, %v",
			x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, x.Arguments))
	}
	for _, q := range d.Queues {
		all = append(all, fmt.Sprintf("%s: queue, durable %v, auto-delete %v, %v", q.Name, q.Durable, q.AutoDelete, q.Arguments))
	}
	for _, b := range d.Bindings {
		all = append(all, fmt.Sprintf("%s: bound to %s by %q, %v", b.Source, b.Destination, b.Key, b.Arguments))
	}
	return all
}

// beyond are the lines that others lack.
func beyond(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}

// notOnlyRehops returns the lines about objects that do not belong to rehop alone.
func notOnlyRehops(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, "rehop.") })
}
