package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// The counters are right when messages come and go, and each error in them is found.
func TestCheckBooks(t *testing.T) {
	content := func() *store.Content { return &store.Content{Key: "q", Body: []byte("body")} }
	for name, c := range map[string]struct {
		tamper func(n *Node, q *Queue)
		want   string
	}{
		"nothing":   {func(*Node, *Queue) {}, ""},
		"published": {func(n *Node, q *Queue) { n.Publish(content(), wire.Brief{DeliveryMode: 2}, -1, []*Queue{q}) }, ""},
		"purged": {func(n *Node, q *Queue) {
			n.Publish(content(), wire.Brief{DeliveryMode: 2}, -1, []*Queue{q})
			q.Purge()
		}, ""},
		"taken by nobody": {func(n *Node, q *Queue) {
			n.Publish(content(), wire.Brief{DeliveryMode: 2}, -1, []*Queue{q})
			q.Core.Get(false)
		}, "unacknowledged: the counter is {1 4}, there are {0 0}"},
		"not in the log": {func(n *Node, q *Queue) {
			m := queue.NewMessage(content(), 1)
			m.Persistent = true
			n.budget.Admit(m)
			q.Core.Push(m, -1)
		}, "messages in the log: the counter is 0, there are 1"},
		"purged behind the log's back": {func(n *Node, q *Queue) {
			n.Publish(content(), wire.Brief{DeliveryMode: 2}, -1, []*Queue{q})
			q.Core.Purge()
		}, "messages in the log: the counter is 1, there are 0"},
		"memory lost": {func(n *Node, _ *Queue) { n.budget.Admit(queue.NewMessage(content(), 1)) }, "bytes of messages in memory: the counter is 277, there are 0"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := openAlone(Config{Dir: t.TempDir(), MessageCache: 1 << 20, MemoryLimit: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
			q, err := n.Vhost("/").DeclareQueue(QueueSpec{Name: "q", Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			c.tamper(n, q)
			err = n.CheckCounts()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want nil", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want it to contain %q", err, c.want)
			}
		})
	}
}

// What is read while dead letters are between two queues is read again.
func TestCheckCountsWhileMessagesExpire(t *testing.T) {
	const messages = 2000
	v := openVhost(t, t.TempDir())
	_, err := v.DeclareQueue(QueueSpec{Name: "source", Durable: true, Arguments: wire.Table{{Key: "x-message-ttl", Value: int32(1)},
		{Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: "dead"}}})
	if err != nil {
		t.Fatal(err)
	}
	dead, err := v.DeclareQueue(QueueSpec{Name: "dead", Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	for sent := 0; sent < messages; sent += 100 {
		for range 100 {
			send(v, "expires", wire.Brief{DeliveryMode: 2}, "source")
		}
		for dead.Status().Ready < sent+100 {
			if err := v.node.CheckCounts(); err != nil {
				t.Fatalf("%d of %d messages have expired: %v", dead.Status().Ready, messages, err)
			}
		}
	}
}
