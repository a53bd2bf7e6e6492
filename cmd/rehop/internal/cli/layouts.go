package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// layoutChoice is which layout the queues have: one by its name, with its usual settings, or what a file says of the queue.
type layoutChoice struct {
	name, file string
}

var layoutNames = []string{"native", "pubsub", "dlx", "tiers", "sneakers", "envelope"}

func (l *layoutChoice) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.name, "layout", "", "layout of the queues, with its usual settings: "+strings.Join(layoutNames, ", ")+" (default native)")
	flags.StringVar(&l.file, "config", "", "file (rehop.yaml) that says which layouts the queues have, and where the broker is")
}

// queueLayouts are the layouts of queues.
type queueLayouts struct {
	usual   layout.Layout            // of queues that have none by name; nil: admin knows a default
	byQueue map[string]layout.Layout // by name
}

// layoutsOf are the layouts of all queues. Each of the queues that are named here has to have a flow if a file says which layouts there are.
func (c *command) layoutsOf(l layoutChoice, queues ...string) (queueLayouts, error) {
	if l.file == "" {
		of, err := named(l.name)
		return queueLayouts{usual: of}, err
	}
	if l.name != "" {
		return queueLayouts{}, usage("--layout and --config say the same; give one of them")
	}
	file, err := config.Load(l.file)
	if err != nil {
		return queueLayouts{}, &exitError{exitUsage, err}
	}
	c.reach.adopt(file)
	all := flowLayouts(file)
	for _, queue := range queues {
		if !all.know(queue) {
			return all, usage("%s has no flow with the queue %q", l.file, queue)
		}
	}
	return all, nil
}

// flowLayouts are the layouts of the queues that the flows of a file consume.
func flowLayouts(file *config.File) queueLayouts {
	all := queueLayouts{byQueue: make(map[string]layout.Layout, len(file.Flows))}
	for _, flow := range file.Flows {
		of := flow.Subscriber.Layout
		if of == nil {
			of = layout.Native{Type: file.QueueType}
		}
		all.byQueue[flow.Subscriber.Queue] = of
	}
	return all
}

// know reports whether a queue is one of the flows', one that all of them use, or one that all queues of a layout share for failed messages.
func (q queueLayouts) know(queue string) bool {
	if _, has := q.byQueue[queue]; has || queue == layouts.OrphansQueue || queue == layouts.UnroutedQueue || layouts.IsRecoveredQueue(queue) {
		return true
	}
	for _, of := range q.byQueue {
		if layouts.Must(of).FailedQueue(queue) == queue {
			return true
		}
	}
	return false
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
