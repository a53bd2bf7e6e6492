package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// layoutChoice is the flags for the layout of queues: its name, with its default settings, or a file with flows.
type layoutChoice struct {
	name, file string
}

// layoutsByName are the layouts with their default settings.
var layoutsByName = map[string]layout.Layout{
	"native": layout.Native{}, "pubsub": layout.PubSub{}, "dlx": layout.DLX{}, "tiers": layout.Tiers{}, "sneakers": layout.Sneakers{}, "envelope": layout.Envelope{},
}

func layoutNames() string { return strings.Join(slices.Sorted(maps.Keys(layoutsByName)), ", ") }

func (l *layoutChoice) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.name, "layout", "", "layout of the queues, with its default settings: "+layoutNames()+" (default native)")
	flags.StringVar(&l.file, "config", "", "file (rehop.yaml) with the layouts of the queues and the broker's address")
}

type queueLayouts struct {
	usual   layout.Layout            // of queues that are not in byQueue; nil: the default of admin
	byQueue map[string]layout.Layout // by name
}

// openQueues connects to the broker for queues with these layouts.
func (c *command) openQueues(ctx context.Context, l layoutChoice, queues ...string) (*admin.Admin, error) {
	of, err := c.layoutsOf(l, queues...)
	if err != nil {
		return nil, err
	}
	return c.openAdmin(ctx, of)
}

// layoutsOf returns the layouts of all queues. If they come from a file, each of these queues must have a flow there.
func (c *command) layoutsOf(l layoutChoice, queues ...string) (queueLayouts, error) {
	if l.file == "" {
		of, ok := layoutsByName[cmp.Or(l.name, "native")]
		if !ok {
			return queueLayouts{}, usage("--layout %s: the layouts are %s", l.name, layoutNames())
		}
		return queueLayouts{usual: of}, nil
	}
	if l.name != "" {
		return queueLayouts{}, usage("--layout and --config both set the layout; use one of them")
	}
	file, err := config.Load(l.file)
	if err != nil {
		return queueLayouts{}, &exitError{exitUsage, err}
	}
	c.reach.adopt(file)
	all := flowLayouts(file)
	for _, queue := range queues {
		if !all.know(queue) && all.ownerOf(queue) == "" {
			return all, usage("%s has no flow with the queue %q", l.file, queue)
		}
	}
	return all, nil
}

// flowLayouts returns the layouts of the queues that the flows of a file consume.
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

// know reports whether a queue belongs to a flow, is shared by all flows, or is the failed queue of all queues of a layout.
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

// ownerOf returns the queue whose failed queue has this name, or "" if no queue has such a failed queue, or several share it.
func (q queueLayouts) ownerOf(failed string) string {
	for queue, of := range q.byQueue {
		if l := layouts.Must(of); l.FailedQueue(queue) == failed && l.FailedQueue(failed) != failed {
			return queue
		}
	}
	if q.usual == nil || q.know(failed) {
		return ""
	}
	l := layouts.Must(q.usual)
	for end := 1; end < len(failed) && l.FailedQueue(failed) != failed; end++ {
		if l.FailedQueue(failed[:end]) == failed {
			return failed[:end]
		}
	}
	return ""
}
