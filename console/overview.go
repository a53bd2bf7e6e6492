package console

import (
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/admin"
)

// overviewView is the first page: what needs attention, and all queues.
type overviewView struct {
	At        time.Time
	Blind     bool // there is no management API
	Attention []notice
	Sums      []figure
	Queues    []queueRow
	Shape     string // changes with the rows of the tables
}

// notice is something that needs attention.
type notice struct {
	ID   string // of the element with the text
	Name string // of the queue
	Text string
	Path string // of the page about it
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
	o, at, err := x.console.figures.get(x.r.Context())
	if errors.Is(err, admin.ErrNoManagement) {
		return x.show("overview", "Overview", overviewView{Blind: true})
	}
	if err != nil {
		return err
	}
	return x.show("overview", "Overview", overviewOf(o, at))
}

func overviewOf(o admin.Overview, at time.Time) overviewView {
	v := overviewView{At: at, Attention: attention(o)}
	var ready, unacked, waiting, failed, consumers int
	for i, q := range o.Queues {
		ready, unacked, failed, consumers = ready+q.Ready, unacked+max(q.Unacked, 0), failed+q.Failed, consumers+q.Consumers
		v.Queues = append(v.Queues, rowOf(i, q))
		v.Shape += q.Name + "\x00"
	}
	for _, q := range o.DelayQueues {
		waiting += q.Messages
	}
	v.Sums = []figure{{"sum-failed", "failed", number(failed)}, {"sum-waiting", "waiting for the next attempt", number(waiting)}, {"sum-ready", "ready", number(ready)},
		{"sum-unacked", "unacked", number(unacked)}, {"sum-consumers", "consumers", number(consumers)}}
	for _, n := range v.Attention {
		v.Shape += n.Name + "\x00" + n.Path + "\x00"
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
func attention(o admin.Overview) (all []notice) {
	for _, q := range o.Queues {
		if q.Ready > 0 && q.Consumers == 0 && !q.Migrating {
			all = append(all, notice{"", q.Name, fmt.Sprintf("%s wait, and nobody consumes them", counted(q.Ready, "message")), "queue"})
		}
	}
	for _, q := range o.Queues {
		if q.Failed > 0 {
			all = append(all, notice{"", q.Name, fmt.Sprintf("%s failed", counted(q.Failed, "message")), "failed"})
		}
	}
	for _, q := range o.Queues {
		if q.Migrating {
			all = append(all, notice{"", q.Name, fmt.Sprintf("is being migrated; %s in another queue meanwhile", counted(q.Kept, "message")), "queue"})
		}
	}
	if o.Orphans > 0 {
		all = append(all, notice{"", orphansQueue, fmt.Sprintf("%s lost their queue while they waited", counted(o.Orphans, "message")), "failed"})
	}
	if o.Unrouted > 0 {
		all = append(all, notice{"", unroutedQueue, fmt.Sprintf("%s found no queue", counted(o.Unrouted, "message")), "failed"})
	}
	for _, q := range o.Recovered {
		if q.Messages > 0 {
			all = append(all, notice{"", q.Name, fmt.Sprintf("%s of a lost queue were recovered", counted(q.Messages, "message")), "failed"})
		}
	}
	for i := range all {
		all[i].ID = fmt.Sprintf("n%d", i)
	}
	return all
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
