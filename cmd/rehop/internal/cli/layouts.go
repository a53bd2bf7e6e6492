package cli

import (
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/layout"
)

// layoutChoice is which layout the queues have: one by its name, with its usual settings, or what a file says of the queue.
type layoutChoice struct {
	name, file string
}

var layoutNames = []string{"native", "pubsub", "dlx", "tiers", "sneakers", "envelope"}

func (l *layoutChoice) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.name, "layout", "", "layout of the queues, with its usual settings: "+strings.Join(layoutNames, ", ")+" (default native)")
	flags.StringVar(&l.file, "config", "", "file (rehop.yaml) that says which layout the queue has, and where the broker is")
}

// layoutOf is the layout of a queue; of all queues if it has no name.
func (c *command) layoutOf(l layoutChoice, queue string) (layout.Layout, error) {
	if l.file == "" {
		return named(l.name)
	}
	if l.name != "" {
		return nil, usage("--layout and --config say the same; give one of them")
	}
	file, err := config.Load(l.file)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	c.reach.adopt(file)
	var all []layout.Layout
	for _, flow := range file.Flows {
		of := flow.Subscription.Layout
		if of == nil {
			of = layout.Native{Type: file.QueueType}
		}
		if flow.Subscription.Queue == queue {
			return of, nil
		}
		if !slices.ContainsFunc(all, func(other layout.Layout) bool { return reflect.DeepEqual(of, other) }) {
			all = append(all, of)
		}
	}
	switch {
	case queue == layout.OrphansQueue || queue == layout.UnroutedQueue || layout.IsRecoveredQueue(queue), queue == "" && len(all) == 0:
		return layout.Native{}, nil
	case queue != "":
		return nil, usage("%s has no flow with the queue %q", l.file, queue)
	case len(all) > 1:
		return nil, usage("the flows of %s have different layouts; choose one with --layout", l.file)
	}
	return all[0], nil
}

func named(name string) (layout.Layout, error) {
	switch name {
	case "", "native":
		return layout.Native{}, nil
	case "pubsub":
		return layout.PubSub{}, nil
	case "dlx":
		return layout.DLX{}, nil
	case "tiers":
		return layout.Tiers{}, nil
	case "sneakers":
		return layout.Sneakers{}, nil
	case "envelope":
		return layout.Envelope{}, nil
	}
	return nil, usage("--layout %s: the layouts are %s", name, strings.Join(layoutNames, ", "))
}
