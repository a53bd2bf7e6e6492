package console

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/outbox"
)

// What needs attention is listed, the worst first, each with the page about it.
func TestAttention(t *testing.T) {
	now := state{
		nodes: []admin.Node{{Name: "rabbit@a", Running: true, MemoryAlarm: true}, {Name: "rabbit@b", Running: true, DiskAlarm: true, Partitions: []string{"rabbit@a", "rabbit@c"}}, {Name: "rabbit@c"}},
		outboxes: []outboxView{
			{Name: "away", Wrong: "connection refused"}, {Name: "stuck", Backlog: outbox.Backlog{SetAside: 1, Oldest: time.Hour}}, {Name: "late", Backlog: outbox.Backlog{Oldest: 61 * time.Second}},
			{Name: "fine", Backlog: outbox.Backlog{Ready: 5, Oldest: time.Second}},
		},
		Overview: admin.Overview{
			Queues:  []admin.Queue{{Name: "a&b", Ready: 2}, {Name: "bills", Failed: 1, Consumers: 1}, {Name: "moved", Migrating: true, Ready: 3, Kept: 1}, {Name: "fine", Ready: 1, Consumers: 1}},
			Orphans: 4, Unrouted: 5, Recovered: []admin.QueueSize{{Name: "rehop.recovered.x", Messages: 6}, {Name: "rehop.recovered.y"}},
		},
	}
	want := []notice{
		{Name: "rabbit@a", Link: "doctor", Text: "has a memory alarm: the whole cluster accepts no messages"},
		{Name: "rabbit@b", Link: "doctor", Text: "has a disk alarm: the whole cluster accepts no messages"},
		{Name: "rabbit@b", Link: "doctor", Text: "has lost rabbit@a, rabbit@c"},
		{Name: "rabbit@c", Link: "doctor", Text: "is down"},
		{Name: "a&b", Link: "queue?name=a%26b", Text: "2 messages wait, and nobody consumes them"},
		{Name: "bills", Link: "failed?queue=bills", Text: "1 message failed"},
		{Name: "away", Link: "outbox", Text: "cannot be read"},
		{Name: "stuck", Link: "outbox?name=stuck", Text: "1 message of the outbox cannot be published"},
		{Name: "late", Link: "outbox?name=late", Text: "the oldest message of the outbox waits for 1m1s"},
		{Name: "moved", Link: "queue?name=moved", Text: "is being migrated; 1 message in another queue meanwhile"},
		{Name: orphansQueue, Link: "failed?queue=" + orphansQueue, Text: "4 messages lost their queue while they waited"},
		{Name: unroutedQueue, Link: "failed?queue=" + unroutedQueue, Text: "5 messages found no queue"},
		{Name: "rehop.recovered.x", Link: "failed?queue=rehop.recovered.x", Text: "6 messages of a lost queue were recovered"},
	}
	for i := range want {
		want[i].ID = fmt.Sprintf("n%d", i)
	}
	if got := attention(now); !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if got := attention(state{nodes: []admin.Node{{Name: "a", Running: true}}}); len(got) > 0 {
		t.Errorf("got %+v of a broker without trouble", got)
	}
	v := (&Console{}).overviewOf(now)
	sums := make(map[string]string)
	for _, f := range v.Sums {
		sums[f.ID] = f.Value
	}
	if sums["sum-nodes"] != "2 of 3" || sums["sum-outbox"] != "5" {
		t.Errorf("got the sums %v", sums)
	}
	now.nodes[2].Running = true
	if (&Console{}).overviewOf(now).Shape == v.Shape {
		t.Error("a page from before does not show that a node is back")
	}
}
