package console

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/outbox"
)

// overviewView is the first page: what needs attention, and all queues.
type overviewView struct {
	At        time.Time
	Blind     bool // there is no management API
	Attention []notice
	Sums      []figure
	NodesHide string // why the nodes are not known
	Doctor    *examination
	Steps     []figure
	Queues    []queueRow
	Shape     string // changes with the rows of the tables
}

// notice is something that needs attention.
type notice struct {
	ID   string // of the element with the text
	Name string // of the queue, node or outbox
	Text string
	Link string // the page about it
}

// figure is a number that is updated while the page is open.
type figure struct {
	ID, Name, Value string
}

// queueRow is a queue in a table. The cells are figures, so that they can be updated.
type queueRow struct {
	admin.Queue
	Cells []figure
}

// Names of the queues that rehop shares among all subscriptions.
const (
	orphansQueue  = "rehop.orphans"
	unroutedQueue = "rehop.unrouted"
)

func (x *call) overview() error {
	v, err := x.newOverview()
	if errors.Is(err, admin.ErrNoManagement) {
		return x.show("overview", "Overview", overviewView{Blind: true})
	}
	if err != nil {
		return err
	}
	return x.show("overview", "Overview", v)
}

// newOverview is the overview at this moment, for the page and for its stream of events.
func (x *call) newOverview() (overviewView, error) {
	c, ctx := x.console, x.r.Context()
	o, at, err := c.figures.get(ctx)
	if err != nil {
		return overviewView{}, err
	}
	return state{o, at, c.nodes.get(ctx), c.backlog.get(ctx), c.examined.Load()}.view(), nil
}

// state is what the overview is made of.
type state struct {
	admin.Overview
	at       time.Time
	nodes    nodesView
	outboxes []outboxView
	examined *examination
}

func (now state) view() overviewView {
	v := overviewView{At: now.at, Attention: now.attention(), NodesHide: now.nodes.hide, Doctor: now.examined}
	var ready, unacked, waiting, failed, consumers int
	for i, q := range now.Queues {
		ready, unacked, failed, consumers = ready+q.Ready, unacked+max(q.Unacked, 0), failed+q.Failed, consumers+q.Consumers
		v.Queues = append(v.Queues, rowOf(i, q))
		v.Shape += q.Name + "\x00"
	}
	for i, q := range now.DelayQueues {
		waiting += q.Messages
		v.Steps = append(v.Steps, figure{fmt.Sprintf("s%d", i), stepName(q.Name), number(q.Messages)})
		v.Shape += q.Name + "\x00"
	}
	v.Sums = []figure{{"sum-failed", "failed", number(failed)}, {"sum-waiting", "waiting for the next attempt", number(waiting)}, {"sum-ready", "ready", number(ready)},
		{"sum-unacked", "unacked", number(unacked)}, {"sum-consumers", "consumers", number(consumers)}}
	if len(now.outboxes) > 0 {
		v.Sums = append(v.Sums, figure{"sum-outbox", "in outboxes", unpublished(now.outboxes)})
	}
	if len(now.nodes.nodes) > 0 {
		up := len(slices.DeleteFunc(slices.Clone(now.nodes.nodes), func(n admin.Node) bool { return !n.Running }))
		v.Sums = append(v.Sums, figure{"sum-nodes", "nodes running", fmt.Sprintf("%d of %d", up, len(now.nodes.nodes))})
	}
	v.Shape += v.NodesHide
	if v.Doctor != nil {
		v.Shape += v.Doctor.At.String()
	}
	for _, f := range v.Sums {
		v.Shape += f.ID + "\x00"
	}
	for _, n := range v.Attention {
		v.Shape += n.Name + "\x00" + n.Link + "\x00"
	}
	v.Shape = shapeOf(v.Shape)
	return v
}

// rowOf gives each cell an id that does not contain the name of the queue, which can be any text.
func rowOf(i int, q admin.Queue) queueRow {
	r := queueRow{Queue: q}
	for _, c := range []struct{ name, value string }{
		{"ready", number(q.Ready)}, {"unacked", number(q.Unacked)}, {"failed", number(q.Failed)}, {"in", rate(q.In)}, {"out", rate(q.Out)}, {"consumers", number(q.Consumers)},
	} {
		r.Cells = append(r.Cells, figure{fmt.Sprintf("q%d-%s", i, c.name), c.name, c.value})
	}
	return r
}

// attention is what an operator should look at, the worst first.
func (now state) attention() (all []notice) {
	add := func(name, text, page, parameter string) {
		link := page
		if parameter != "" {
			link += "?" + url.Values{parameter: {name}}.Encode()
		}
		all = append(all, notice{fmt.Sprintf("n%d", len(all)), name, text, link})
	}
	for _, n := range now.nodes.nodes {
		for _, trouble := range []struct {
			is   bool
			text string
		}{
			{n.MemoryAlarm, "has a memory alarm: the whole cluster accepts no messages"},
			{n.DiskAlarm, "has a disk alarm: the whole cluster accepts no messages"},
			{!n.Running, "is down"},
			{len(n.Partitions) > 0, "has lost " + counted(len(n.Partitions), "other node")},
		} {
			if trouble.is {
				add(n.Name, trouble.text, "doctor", "")
			}
		}
	}
	for _, q := range now.Queues {
		if q.Ready > 0 && q.Consumers == 0 && !q.Migrating {
			add(q.Name, counted(q.Ready, "message")+" wait, and nobody consumes them", "queue", "name")
		}
	}
	for _, q := range now.Queues {
		if q.Failed > 0 {
			add(q.Name, counted(q.Failed, "message")+" failed", "failed", "queue")
		}
	}
	for _, o := range now.outboxes {
		if o.Wrong != "" {
			add(o.Name, "the backlog of the outbox could not be read", "outbox", "")
			continue
		}
		if o.Backlog.Oldest > outboxLag {
			add(o.Name, "the oldest message of the outbox has waited for "+o.Age(), "outbox", "name")
		}
		if n := o.Backlog.SetAside; n > 0 {
			add(o.Name, counted(n, "message")+" of the outbox cannot be published", "outbox", "name")
		}
	}
	for _, q := range now.Queues {
		if q.Migrating {
			add(q.Name, "is being migrated; "+counted(q.Kept, "message")+" in another queue meanwhile", "queue", "name")
		}
	}
	if now.Orphans > 0 {
		add(orphansQueue, counted(now.Orphans, "message")+" lost their queue while they waited", "failed", "queue")
	}
	if now.Unrouted > 0 {
		add(unroutedQueue, counted(now.Unrouted, "message")+" found no queue", "failed", "queue")
	}
	for _, q := range now.Recovered {
		if q.Messages > 0 {
			add(q.Name, counted(q.Messages, "message")+" of a lost queue were recovered", "failed", "queue")
		}
	}
	return all
}

// unpublished is how many messages the outboxes have that can be published now.
func unpublished(outboxes []outboxView) string {
	n, more := 0, ""
	for _, o := range outboxes {
		if o.Wrong != "" {
			continue
		}
		n += o.Backlog.Ready + o.Backlog.Retrying
		if max(o.Backlog.Ready, o.Backlog.Retrying) >= outbox.MaxCounted {
			more = "+"
		}
	}
	return number(n) + more
}

// outboxLag is how long a message of an outbox waits before that needs attention: relays publish within a second.
const outboxLag = time.Minute

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
