package node

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// damageDefinition flips a bit in the record of a definition.
func damageDefinition(t *testing.T, dir, key string) {
	t.Helper()
	path := filepath.Join(dir, "definitions.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(b, append(binary.AppendUvarint(nil, uint64(len(key))), key...))
	if at < 0 {
		t.Fatalf("no definition %s", key)
	}
	b[at+2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whichever definition is damaged, a repair loses no message: a virtual host is recreated because of its contents, and messages whose queue is lost
// are in a queue that the report lists.
func TestRepairKeepsEveryMessage(t *testing.T) {
	const messages = 200
	for _, tt := range []struct {
		name      string
		key       string // of the definition that is damaged
		snapshot  bool   // the definitions were written anew since
		vhost     string
		queue     string // that has the messages afterwards
		recovered bool
	}{
		{"the virtual host", vhostKey("/"), false, "/", "orders", false},
		{"another virtual host", vhostKey("shop"), false, "shop", "orders", false},
		{"the virtual host, written anew", vhostKey("/"), true, "/", "orders", false},
		{"the queue", queueKey("/", "orders"), false, "/", "", true},
		{"the queue of another virtual host", queueKey("shop", "orders"), false, "shop", "", true},
		{"the queue, written anew", queueKey("/", "orders"), true, "/", "", true},
		{"something else", queueKey("/", "else"), true, "/", "orders", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			v := openVhost(t, dir)
			n := v.node
			must{t, v}.do(n.AddVhost("shop"))
			must{t, v}.do(putUser(n, User{Name: "shop", Password: "secret"}))
			for _, v := range n.Vhosts() {
				m := must{t, v}
				m.queue("else")
				deleted := m.queue("deleted")
				m.queue("orders")
				m.do(v.Bind(v.Exchange("amq.topic"), Destination{Queue: v.Queue("orders")}, "#", nil))
				m.publish("", "deleted", wire.Properties{DeliveryMode: 2}, "deleted")
				_, err := deleted.Delete(false, false)
				m.do(err)
				for i := range messages {
					m.publish("", "orders", wire.Properties{DeliveryMode: 2}, fmt.Sprint(v.Name, i))
				}
			}
			for i := 0; tt.snapshot && i < 200; i++ {
				must{t, v}.do(putUser(n, User{Name: "often", Tags: []string{fmt.Sprint(i), string(make([]byte, 200))}}))
			}
			id := n.Vhost(tt.vhost).Queue("orders").Core.ID
			must{t, v}.do(n.Close())
			damageDefinition(t, dir, tt.key)
			if _, err := openAlone(n.Config); err == nil {
				t.Fatal("got a damaged directory opened, want it refused")
			}
			report, err := Repair(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			var want []store.RecoveredQueue
			if tt.snapshot { // nothing shows any more that these were deleted
				want = append(want, store.RecoveredQueue{Vhost: "/", Name: "rehop.recovered.2", Messages: 1}, store.RecoveredQueue{Vhost: "/", Name: "rehop.recovered.5", Messages: 1})
			}
			if tt.recovered {
				tt.vhost, tt.queue = "/", fmt.Sprintf("rehop.recovered.%d", id)
				want = append(want, store.RecoveredQueue{Vhost: "/", Name: tt.queue, Messages: messages})
			}
			slices.SortFunc(want, func(a, b store.RecoveredQueue) int { return cmp.Compare(a.Name, b.Name) })
			if len(report.Damage) == 0 || !slices.Equal(report.Recovered, want) {
				t.Errorf("got damage %v and recovered %v, want some damage and recovered %v", report.Damage, report.Recovered, want)
			}
			for range 2 {
				n = openVhost(t, dir).node
				for _, v := range n.Vhosts() {
					m := must{t, v}
					names := []string{"orders"}
					if v.Name == tt.vhost {
						names = append(names, tt.queue)
					}
					for _, name := range names {
						if q := v.Queue(name); q != nil && len(m.bodies(name)) != messages {
							t.Errorf("%s: got %d messages, want %d", q, len(m.bodies(name)), messages)
						} else if q == nil && (!tt.recovered || name != "orders") {
							t.Errorf("virtual host %q: got no queue %q, want it", v.Name, name)
						}
					}
					if !tt.recovered && len(v.Bindings()) == 0 {
						t.Errorf("virtual host %q: got no binding, want it", v.Name)
					}
				}
				if got := len(n.Vhosts()); got != 2 {
					t.Errorf("got %d virtual hosts, want 2", got)
				}
				if err := n.CheckCounts(); err != nil {
					t.Error(err)
				}
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Dead letters that a queue keeps survive the loss of its definition, or of the policy with their target: they become ordinary messages of the queue,
// whatever they died of, and stay that.
func TestRepairKeepsDeadLetters(t *testing.T) {
	for _, damaged := range []string{"queue", "policy"} {
		t.Run(damaged, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := must{t, openVhost(t, dir)}
				dlx := Policy{Name: "dlx", Pattern: "source|recovered", ApplyTo: "queues",
					Definition: definition{"dead-letter-exchange": "amq.direct", "dead-letter-strategy": "at-least-once"}}
				args := []any{"x-queue-type", "quorum", "x-overflow", "reject-publish", "x-delivery-limit", int32(1)}
				if damaged == "queue" {
					args = append(args, "x-dead-letter-exchange", "amq.direct", "x-dead-letter-strategy", "at-least-once")
				} else {
					m.do(m.v.PutPolicy(dlx))
				}
				source := m.queue("source", args...)
				persistent := wire.Properties{DeliveryMode: 2}
				m.publish("", "source", persistent, "rejected")
				m.v.node.Settle(source, []queue.Item{m.take(source)}, Rejected)
				m.publish("", "source", persistent, "delivered too often")
				for range 2 {
					m.v.node.Settle(source, []queue.Item{m.take(source)}, Lost)
				}
				expiring := persistent
				expiring.Expiration = "1000"
				m.publish("", "source", expiring, "expired")
				time.Sleep(time.Minute)
				m.publish("", "source", persistent, "alive")
				if dying := source.Status().Dying; dying != 3 {
					t.Fatalf("%d dead letters wait, want 3", dying)
				}
				m.do(m.v.node.Close())

				name, key := "source", dlx.key("/")
				if damaged == "queue" {
					name, key = recoveredName(source.Core.ID), queueKey("/", "source")
				}
				damageDefinition(t, dir, key)
				_, err := Repair(t.Context(), dir)
				m.do(err)
				m.v = openVhost(t, dir)
				for start := range 3 {
					m.wantBodies(name, "rejected", "delivered too often", "expired", "alive")
					time.Sleep(time.Minute)
					m.wantBodies(name, "rejected", "delivered too often", "expired", "alive")
					m.do(m.v.node.CheckCounts())
					if q := m.v.Queue(name); start == 1 { // read them as often as the limit allows
						taken := []queue.Item{m.take(q), m.take(q), m.take(q), m.take(q)}
						m.v.node.Settle(q, taken, Lost)
					}
					m.v = reopen(t, m.v)
				}
				// A dead-letter exchange gets what dies from then on.
				m.do(m.v.PutPolicy(dlx))
				m.v = reopen(t, m.v)
				m.wantBodies(name, "rejected", "delivered too often", "expired", "alive")
				m.do(m.v.Bind(m.v.Exchange("amq.direct"), Destination{Queue: m.queue("target")}, "source", nil))
				q := m.v.Queue(name)
				m.v.node.Settle(q, []queue.Item{m.take(q)}, Rejected)
				m.wantBodies("target", "rejected")
				m.v.node.Settle(q, []queue.Item{m.take(q)}, Acked)
				m.wantBodies(name, "expired", "alive")
				m.do(m.v.node.Close())
			})
		})
	}
}
