package node

import (
	"testing"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

func TestRecent(t *testing.T) {
	var r contentCache
	var all []*queue.Message
	content := func(size int) *store.Content { return &store.Content{Body: make([]byte, size)} }
	for range 10 {
		m := &queue.Message{}
		r.add(m, content(1<<20-PublicationOverhead))
		r.add(m, content(5)) // is there already
		all = append(all, m)
	}
	for i, m := range all {
		if got, want := r.find(m) != nil, i >= 6; got != want {
			t.Errorf("message %d: kept %t, want %t", i, got, want)
		}
	}
	if r.bytes != recentBytes || len(r.order) != 4 || len(r.contents) != 4 {
		t.Errorf("got %d bytes of %d and %d messages, want %d bytes of 4", r.bytes, len(r.order), len(r.contents), recentBytes)
	}
	large := &queue.Message{}
	if r.add(large, content(recentBytes)); r.find(large) != nil || r.find(all[9]) == nil {
		t.Error("a content that is too large was kept, or made room for")
	}
}

// TestFanoutReadsOnce: a message in several queues is read from disk once, although it does not stay in memory.
func TestFanoutReadsOnce(t *testing.T) {
	v := openVhost(t, t.TempDir()) // nothing stays in memory
	m := must{t, v}
	queues := []*Queue{m.queue("a"), m.queue("b"), m.queue("c")}
	send(v, "body", wire.Brief{DeliveryMode: 2}, "a", "b", "c")
	var first *store.Content
	for _, q := range queues {
		if it := q.Core.Peek(1); len(it) != 1 || it[0].Message.Content() != nil {
			t.Fatalf("%s: the message is not there, or in memory: this test shows nothing", q)
		}
		content := m.get(q)
		if first == nil {
			first = content
		} else if content != first {
			t.Errorf("%s: the content was read again", q)
		}
	}
	// A message in no other queue is not kept.
	alone := m.queue("alone")
	send(v, "body", wire.Brief{DeliveryMode: 2}, "alone")
	message := alone.Core.Peek(1)[0].Message
	if m.get(alone); v.node.contentCache.find(message) != nil {
		t.Error("a content that one queue holds was kept for others")
	}
}

// get takes the first message and returns its content.
func (m must) get(q *Queue) *store.Content {
	m.t.Helper()
	_, content, _, fx := q.Core.Get(false)
	for content == nil && fx.Load {
		m.v.node.Apply(q, fx)
		_, content, _, fx = q.Core.Get(false)
	}
	if content == nil {
		m.t.Fatalf("%s is empty", q)
	}
	return content
}
