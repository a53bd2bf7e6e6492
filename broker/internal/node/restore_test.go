package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// inventory lists all definitions of a node.
func (n *Node) inventory() (lines []string) {
	note := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, u := range n.Users() {
		note("user %q %+v", u.Name, *u)
	}
	for _, v := range n.Vhosts() {
		note("vhost %q", v.Name)
		for _, p := range v.Policies() {
			note("policy %q %q %s %d %v", p.Name, p.Pattern, p.ApplyTo, p.Priority, p.Definition)
		}
		for _, x := range v.Exchanges() {
			note("exchange %q %s %t %t %t %s %q", x.Name, x.Kind, x.Durable, x.AutoDelete, x.Internal, erlang.Term(x.Arguments), x.alternate)
		}
		for _, q := range v.Queues() {
			note("queue %q %s %t %t %s %+v", q.Name, q.Core.Type, q.Durable, q.AutoDelete, erlang.Term(q.Arguments), q.Core.Settings())
		}
		bindings := v.Bindings()
		slices.SortFunc(bindings, func(a, b Binding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, b := range bindings {
			note("binding %q %s %q %q %s", b.Source, b.Kind, b.Destination, b.Key, erlang.Term(b.Arguments))
		}
	}
	return lines
}

// reopen closes a node and opens it again.
func reopen(t *testing.T, v *Vhost) *Vhost {
	t.Helper()
	if err := v.node.Close(); err != nil {
		t.Fatal(err)
	}
	return openVhostAs(t, v.node.Config.Dir, v.node.Config.Compat)
}

// must declares things in a virtual host.
type must struct {
	t *testing.T
	v *Vhost
}

func (m must) do(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m must) queue(name string, arguments ...any) *Queue {
	m.t.Helper()
	q, err := m.v.DeclareQueue(QueueSpec{Name: name, Durable: true, Arguments: table(arguments...)})
	m.do(err)
	return q
}

// publish sends a message through an exchange.
func (m must) publish(through, key string, p wire.Properties, body string) {
	m.t.Helper()
	raw := p.Append(nil)
	brief, err := wire.ScanProperties(raw)
	m.do(err)
	ttl, err := ParseExpiration(brief.Expiration)
	m.do(err)
	queues, _ := m.v.Route(m.v.Exchange(through), []string{key}, func() wire.Table { return p.Headers })
	m.v.node.Publish(&store.Content{Exchange: through, Key: key, Properties: raw, Body: []byte(body)}, brief, ttl, queues)
}

// take gets a message and does not answer.
func (m must) take(q *Queue) queue.Item {
	m.t.Helper()
	it, content, _, fx := q.Core.Get(false)
	for content == nil && fx.Load {
		m.v.node.Apply(q, fx)
		it, content, _, fx = q.Core.Get(false)
	}
	if content == nil {
		m.t.Fatalf("%s is empty", q)
	}
	return it
}

func (m must) wantBodies(name string, want ...string) {
	m.t.Helper()
	if got := m.bodies(name); !slices.Equal(got, want) {
		m.t.Errorf("queue %q: got %q, want %q", name, got, want)
	}
}

func (m must) bodies(name string) (bodies []string) {
	m.t.Helper()
	seen, err := m.v.Queue(name).PeekMessages()
	m.do(err)
	for _, s := range seen {
		bodies = append(bodies, string(s.Body))
	}
	return bodies
}

// everything creates durable definitions of every kind, with names of any bytes.
func (m must) everything() {
	n, v := m.v.node, m.v
	m.do(n.AddVhost("a/b ü"))
	m.do(putUser(n, User{Name: "ü/\x00", Password: "secret", Tags: []string{"management", "x"}, LoopbackOnly: true,
		Permissions: map[string]Permission{"/": {"^a", "b", ""}, "a/b ü": Everything()}}))
	m.do(v.PutPolicy(Policy{Name: "p/1", Pattern: "^own", ApplyTo: "queues", Priority: 3, Definition: definition{"max-length": 7, "overflow": "reject-publish"}}))
	for _, kind := range []exchange.Kind{exchange.Direct, exchange.Fanout, exchange.Topic, exchange.Headers} {
		m.do(v.DeclareExchange(Exchange{Name: "x-" + string(kind), Kind: kind, Durable: true, Arguments: table("alternate-exchange", "amq.fanout")}))
	}
	m.do(v.DeclareExchange(Exchange{Name: "\xff odd", Kind: exchange.Direct, Durable: true, AutoDelete: true, Internal: true}))
	m.queue("own", "x-max-priority", int8(5), "x-message-ttl", int64(60000), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	m.queue("quorum", "x-queue-type", "quorum", "x-delivery-limit", int32(5))
	m.queue("\xff/\x00")
	_, err := v.DeclareQueue(QueueSpec{Name: "auto", Durable: true, AutoDelete: true})
	m.do(err)
	to := func(name string) Destination { return Destination{Queue: v.Queue(name)} }
	m.do(v.Bind(v.Exchange("x-direct"), to("own"), "\xff.key", nil))
	m.do(v.Bind(v.Exchange("x-topic"), to("\xff/\x00"), "a.*.#", nil))
	m.do(v.Bind(v.Exchange("x-headers"), to("quorum"), "", table("x-match", "any", "n", int32(1))))
	m.do(v.Bind(v.Exchange("x-headers"), to("quorum"), "", table("x-match", "any", "n", int64(1))))
	m.do(v.Bind(v.Exchange("x-fanout"), Destination{Exchange: v.Exchange("x-topic")}, "", nil))
	m.do(v.Bind(v.Exchange("x-direct"), Destination{Exchange: v.Exchange("\xff odd")}, "k", nil))
	m.do(v.Bind(v.Exchange("amq.topic"), to("auto"), "#", nil))
}

// passing creates what does not survive a restart, and what is deleted again.
func (m must) passing() {
	n, v := m.v.node, m.v
	m.do(n.AddVhost("gone"))
	m.do(n.DeleteVhost("gone"))
	m.do(putUser(n, User{Name: "gone"}))
	m.do(n.DeleteUser("gone"))
	m.do(v.PutPolicy(Policy{Name: "gone", Pattern: "", Definition: definition{"max-length": 1}}))
	m.do(v.DeletePolicy("gone", false))
	m.do(v.DeclareExchange(Exchange{Name: "transient", Kind: exchange.Direct}))
	_, err := v.DeclareQueue(QueueSpec{Name: "transient"})
	m.do(err)
	m.do(v.Bind(v.Exchange("transient"), Destination{Queue: v.Queue("own")}, "k", nil))
	m.do(v.Bind(v.Exchange("x-direct"), Destination{Queue: v.Queue("transient")}, "k", nil))
	m.do(v.Bind(v.Exchange("x-direct"), Destination{Queue: v.Queue("own")}, "gone", nil))
	m.do(v.Unbind(v.Exchange("x-direct"), Destination{Queue: v.Queue("own")}, "gone", nil))
	m.do(v.DeclareExchange(Exchange{Name: "gone", Kind: exchange.Direct, Durable: true}))
	m.do(v.Bind(v.Exchange("gone"), Destination{Queue: v.Queue("own")}, "k", nil))
	m.do(v.DeleteExchange("gone", false))
	gone := m.queue("gone")
	m.do(v.Bind(v.Exchange("x-direct"), Destination{Queue: gone}, "k", nil))
	_, err = gone.Delete(false, false)
	m.do(err)
}

func TestDefinitionsAreKept(t *testing.T) {
	v := openVhost(t, t.TempDir())
	must{t, v}.everything()
	before := v.node.inventory()
	must{t, v}.passing()
	for range 2 {
		v = reopen(t, v)
		if after := v.node.inventory(); !slices.Equal(after, before) {
			t.Fatalf("after a restart:\n got %s\nwant %s", strings.Join(after, "\n     "), strings.Join(before, "\n     "))
		}
	}
	if u := v.node.User("ü/\x00"); !u.knows("secret") {
		t.Error("the password is forgotten")
	}
}

// TestRoutesAreKept: bindings route after a restart as before.
func TestRoutesAreKept(t *testing.T) {
	v := openVhost(t, t.TempDir())
	must{t, v}.everything()
	for _, when := range []string{"before", "after"} {
		m := must{t, v}
		for _, c := range []struct {
			through, key string
			headers      wire.Table
			queue        string
		}{
			{"x-direct", "\xff.key", nil, "own"},
			{"x-fanout", "a.b", nil, "\xff/\x00"},
			{"x-headers", "", table("n", int16(1)), "quorum"},
			{"amq.topic", "any", nil, "auto"},
			{"", "\xff/\x00", nil, "\xff/\x00"},
		} {
			m.publish(c.through, c.key, wire.Properties{Headers: c.headers}, when)
			if got := m.bodies(c.queue); len(got) == 0 || got[len(got)-1] != when {
				t.Errorf("%s the restart, through %q with key %q: got %q in %q, want one more", when, c.through, c.key, got, c.queue)
			}
		}
		v = reopen(t, v)
	}
}

func TestMessagesAreKept(t *testing.T) {
	v := openVhost(t, t.TempDir())
	m := must{t, v}
	m.queue("priorities", "x-max-priority", int8(9))
	m.queue("quorum", "x-queue-type", "quorum")
	m.queue("plain")
	for _, name := range []string{"priorities", "quorum", "plain"} {
		m.do(v.Bind(v.Exchange("amq.fanout"), Destination{Queue: v.Queue(name)}, "", nil))
	}
	for i, priority := range []uint8{1, 5, 0, 5} {
		m.publish("amq.fanout", "", wire.Properties{DeliveryMode: 2, Priority: priority, MessageID: fmt.Sprint("id", i)}, fmt.Sprint(i))
	}
	m.publish("", "plain", wire.Properties{DeliveryMode: 1}, "transient")
	m.publish("", "quorum", wire.Properties{DeliveryMode: 1}, "transient") // but kept: a quorum queue keeps all

	// One is acknowledged, one dies without a dead-letter exchange, one is returned twice.
	n := v.node
	n.Settle(v.Queue("plain"), []queue.Item{m.take(v.Queue("plain"))}, Acked)
	n.Settle(v.Queue("plain"), []queue.Item{m.take(v.Queue("plain"))}, Rejected)
	quorum := v.Queue("quorum")
	for range 2 {
		n.Settle(quorum, []queue.Item{m.take(quorum)}, Lost)
	}
	m.take(v.Queue("priorities")) // and never answered

	for range 2 {
		v = reopen(t, v)
		m = must{t, v}
		m.wantBodies("plain", "2", "3")
		m.wantBodies("priorities", "1", "3", "0", "2")
		m.wantBodies("quorum", "0", "1", "2", "3", "transient")
	}
	if err := v.node.CheckCounts(); err != nil {
		t.Error(err)
	}
	seen, err := v.Queue("priorities").PeekMessages()
	if err != nil {
		t.Fatal(err)
	}
	if p := seen[0].Properties; p.MessageID != "id1" || p.Priority != 5 || p.DeliveryMode != 2 || seen[0].Exchange != "amq.fanout" {
		t.Errorf("properties: got %+v through %q, want those of 1", p, seen[0].Exchange)
	}
	for i, want := range []uint32{2, 0} {
		if it := m.take(v.Queue("quorum")); it.Count != want || want > 0 && !it.Redelivered {
			t.Errorf("message %d of the quorum queue: got count %d, redelivered %t, want %d, %t", i, it.Count, it.Redelivered, want, want > 0)
		}
	}
	if status := v.Queue("priorities").Status(); status.Ready != 4 || status.ReadyBytes != 4 {
		t.Errorf("status: got %d messages with %d bytes, want 4 with 4", status.Ready, status.ReadyBytes)
	}
}

// TestRedeliveryMarkIsKept: a message that was unacked when the broker crashed is marked as redelivered, even if the broker was started
// and stopped cleanly since. One that was published after the crash is not.
func TestRedeliveryMarkIsKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := must{t, openVhost(t, dir)}
		q := m.queue("q")
		m.publish("", "q", wire.Properties{DeliveryMode: 2}, "before")
		m.take(q)
		time.Sleep(time.Second) // until it is on disk
		m.v = kill(t, m.v)
		m.publish("", "q", wire.Properties{DeliveryMode: 2}, "after")
		for range 2 {
			m.v = reopen(t, m.v)
		}
		seen, err := m.v.Queue("q").PeekMessages()
		m.do(err)
		var got []string
		for _, s := range seen {
			got = append(got, fmt.Sprint(string(s.Body), " ", s.Redelivered))
		}
		if want := []string{"before true", "after false"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		m.do(m.v.node.Close())
	})
}

// TestMessagesAgeWhileStopped: messages grow older while no broker runs, and each expires at its time.
func TestMessagesAgeWhileStopped(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, dir)
		m := must{t, v}
		m.queue("dead")
		m.queue("queue's", "x-message-ttl", int32(10000), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
		m.queue("own", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
		persistent := wire.Properties{DeliveryMode: 2}
		m.publish("", "queue's", persistent, "by the queue")
		persistent.Expiration = "20000"
		m.publish("", "own", persistent, "by itself")
		persistent.Expiration = "5000"
		m.publish("", "own", persistent, "while down")

		time.Sleep(4 * time.Second)
		if err := v.node.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		m.v = openVhost(t, dir)
		m.wantBodies("queue's", "by the queue")
		m.wantBodies("own", "by itself", "while down") // only the head expires
		m.wantBodies("dead")

		time.Sleep(2*time.Second - time.Millisecond)
		synctest.Wait()
		m.wantBodies("dead")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		m.wantBodies("dead", "by the queue")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		m.wantBodies("dead", "by the queue", "by itself", "while down")
		if err := m.v.node.Close(); err != nil {
			t.Error(err)
		}
	})
}
