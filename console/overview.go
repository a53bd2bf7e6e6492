package console

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
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
	now, err := x.console.figures.get(x.r.Context())
	if errors.Is(err, admin.ErrNoManagement) {
		return x.show("overview", "Overview", overviewView{Blind: true})
	}
	if err != nil {
		return err
	}
	return x.show("overview", "Overview", x.console.overviewOf(now))
}

func (c *Console) overviewOf(now state) overviewView {
	v := overviewView{At: now.at, Attention: attention(now), NodesHide: now.nodesHide, Doctor: c.examined.Load()}
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
		unpublished := 0
		for _, o := range now.outboxes {
			if o.Wrong == "" {
				unpublished += o.Backlog.Ready + o.Backlog.Retrying
			}
		}
		v.Sums = append(v.Sums, figure{"sum-outbox", "in outboxes", number(unpublished)})
	}
	if len(now.nodes) > 0 {
		up := len(slices.DeleteFunc(slices.Clone(now.nodes), func(n admin.Node) bool { return !n.Running }))
		v.Sums = append(v.Sums, figure{"sum-nodes", "nodes running", fmt.Sprintf("%d of %d", up, len(now.nodes))})
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
func attention(now state) (all []notice) {
	add := func(name, text, page, parameter string) {
		link := page
		if parameter != "" {
			link += "?" + url.Values{parameter: {name}}.Encode()
		}
		all = append(all, notice{fmt.Sprintf("n%d", len(all)), name, text, link})
	}
	for _, n := range now.nodes {
		for _, trouble := range []struct {
			is   bool
			text string
		}{
			{n.MemoryAlarm, "has a memory alarm: the whole cluster accepts no messages"},
			{n.DiskAlarm, "has a disk alarm: the whole cluster accepts no messages"},
			{!n.Running, "is down"},
			{len(n.Partitions) > 0, "has lost " + strings.Join(n.Partitions, ", ")},
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
		switch b := o.Backlog; {
		case o.Wrong != "":
			add(o.Name, "cannot be read", "outbox", "")
		case b.SetAside > 0:
			add(o.Name, counted(b.SetAside, "message")+" of the outbox cannot be published", "outbox", "name")
		case b.Oldest > outboxLag:
			add(o.Name, "the oldest message of the outbox waits for "+o.Age(), "outbox", "name")
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

// outboxLag is how long a message of an outbox waits before that needs attention: relays publish within a second.
const outboxLag = time.Minute

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
