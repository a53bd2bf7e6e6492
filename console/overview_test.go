package console

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/outbox"
)

// What needs attention is listed, the worst first, each with the page about it.
func TestAttention(t *testing.T) {
	now := state{
		nodes: nodesView{nodes: []admin.Node{{Name: "rabbit@a", Running: true, MemoryAlarm: true}, {Name: "rabbit@b", Running: true, DiskAlarm: true, Partitions: []string{"rabbit@a", "rabbit@c"}}, {Name: "rabbit@c"}}},
		outboxes: []outboxView{
			{Name: "away", Wrong: "connection refused"}, {Name: "stuck", Backlog: outbox.Backlog{SetAside: 1, Oldest: time.Hour}}, {Name: "late", Backlog: outbox.Backlog{Oldest: 61 * time.Second}},
			{Name: "fine", Backlog: outbox.Backlog{Ready: 5, Retrying: outbox.MaxCounted, Oldest: time.Second}},
		},
		Overview: admin.Overview{
			Queues:  []admin.Queue{{Name: "a&b", Ready: 2}, {Name: "bills", Failed: 1, Consumers: 1}, {Name: "moved", Migrating: true, Ready: 3, Kept: 1}, {Name: "fine", Ready: 1, Consumers: 1}},
			Orphans: 4, Unrouted: 5, Recovered: []admin.QueueSize{{Name: "rehop.recovered.x", Messages: 6}, {Name: "rehop.recovered.y"}},
		},
	}
	want := []notice{
		{Name: "rabbit@a", Link: "doctor", Text: "has a memory alarm: the whole cluster accepts no messages"},
		{Name: "rabbit@b", Link: "doctor", Text: "has a disk alarm: the whole cluster accepts no messages"},
		{Name: "rabbit@b", Link: "doctor", Text: "has lost 2 other nodes"},
		{Name: "rabbit@c", Link: "doctor", Text: "is down"},
		{Name: "a&b", Link: "queue?name=a%26b", Text: "2 messages wait, and nobody consumes them"},
		{Name: "bills", Link: "failed?queue=bills", Text: "1 message failed"},
		{Name: "away", Link: "outbox", Text: "the backlog of the outbox could not be read"},
		{Name: "stuck", Link: "outbox?name=stuck", Text: "the oldest message of the outbox has waited for 1h0m0s"},
		{Name: "stuck", Link: "outbox?name=stuck", Text: "1 message of the outbox cannot be published"},
		{Name: "late", Link: "outbox?name=late", Text: "the oldest message of the outbox has waited for 1m1s"},
		{Name: "moved", Link: "queue?name=moved", Text: "is being migrated; 1 message in another queue meanwhile"},
		{Name: orphansQueue, Link: "failed?queue=" + orphansQueue, Text: "4 messages lost their queue while they waited"},
		{Name: unroutedQueue, Link: "failed?queue=" + unroutedQueue, Text: "5 messages found no queue"},
		{Name: "rehop.recovered.x", Link: "failed?queue=rehop.recovered.x", Text: "6 messages of a lost queue were recovered"},
	}
	for i := range want {
		want[i].ID = fmt.Sprintf("n%d", i)
	}
	if got := now.attention(); !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if got := (state{nodes: nodesView{nodes: []admin.Node{{Name: "a", Running: true}}}}).attention(); len(got) > 0 {
		t.Errorf("got %+v of a broker without trouble", got)
	}
	v := now.view()
	sums := make(map[string]string)
	for _, f := range v.Sums {
		sums[f.ID] = f.Value
	}
	if sums["sum-nodes"] != "2 of 3" || sums["sum-outbox"] != number(outbox.MaxCounted+5)+"+" {
		t.Errorf("got the sums %v", sums)
	}
	now.nodes.nodes[2].Running = true
	if now.view().Shape == v.Shape {
		t.Error("a page from before does not show that a node is back")
	}
}

// What does not answer delays the one page that asks, and no other; a panic while it is asked does not end the asking.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, hangs, panics := 0, false, false
		r := recent[int]{ask: func(ctx context.Context) (int, time.Duration) {
			asked++
			n := asked
			switch {
			case panics:
				panic("a fault of the program")
			case hangs:
				time.Sleep(time.Minute)
			}
			return n, 10 * time.Second
		}}
		want := func(what string, value, times int, after time.Duration) {
			t.Helper()
			began := time.Now()
			if got := r.get(t.Context()); got != value || asked != times || time.Since(began) != after {
				t.Errorf("%s: got %d after %v, asked %d times; want %d after %v, %d times", what, got, time.Since(began), asked, value, after, times)
			}
		}
		want("first", 1, 1, 0)
		want("again", 1, 1, 0)
		time.Sleep(10 * time.Second)
		hangs = true
		ended := make(chan struct{})
		go func() { r.get(t.Context()); close(ended) }()
		synctest.Wait()
		want("while it hangs", 1, 2, 0)
		<-ended
		want("after that", 2, 2, 0)
		time.Sleep(10 * time.Second)
		hangs, panics = false, true
		func() {
			defer func() { _ = recover() }()
			r.get(t.Context())
		}()
		panics = false
		want("after a panic", 4, 4, 0)
	})
}
