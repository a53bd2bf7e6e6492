package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// formats are directories that earlier versions have written. They never change: every later version must open them.
var formats = []struct {
	dir    string
	killed bool
	compat Compat
}{
	{"testdata/format1/closed", false, RabbitMQ310},
	{"testdata/format1/killed", true, RabbitMQ310},
	{"testdata/format2/closed", false, RabbitMQ310},
	{"testdata/format2/killed", true, RabbitMQ310},
	{"testdata/format3/closed", false, RabbitMQ43},
	{"testdata/format3/killed", true, RabbitMQ43},
}

// ofFormat returns a copy of a directory.
func ofFormat(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// contents lists what is in a node, in a format of its own, because it is compared with files.
func (m must) contents() string {
	var b strings.Builder
	note := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, u := range m.v.node.Users() {
		note("user %q, tags %q, from this machine alone %t, knows its password %t", u.Name, u.Tags, u.LoopbackOnly, u.knows("secret"))
		for _, vhost := range slices.Sorted(maps.Keys(u.Permissions)) {
			p := u.Permissions[vhost]
			note("  in %q: configure %q, write %q, read %q", vhost, p.Configure, p.Write, p.Read)
		}
	}
	for _, v := range m.v.node.Vhosts() {
		note("virtual host %q", v.Name)
		for _, p := range append(v.Policies(), v.OperatorPolicies()...) {
			note("  policy %q, operator's %t, for %q of %q, priority %d: %v", p.Name, p.Operator, p.Pattern, p.ApplyTo, p.Priority, p.Definition)
		}
		for _, x := range v.Exchanges() {
			note("  exchange %q: %s, auto-delete %t, internal %t, %s", x.Name, x.Kind, x.AutoDelete, x.Internal, erlang.Term(x.Arguments))
		}
		bindings := v.Bindings()
		slices.SortFunc(bindings, func(a, b Binding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, bind := range bindings {
			note("  binding %q to %s %q by %q, %s", bind.Source, bind.Kind, bind.Destination, bind.Key, erlang.Term(bind.Arguments))
		}
		for _, q := range v.Queues() {
			note("  queue %q: %s, auto-delete %t, %s", q.Name, q.Core.Type, q.AutoDelete, erlang.Term(q.Arguments))
			seen, err := q.PeekMessages()
			m.do(err)
			for i, it := range q.Core.Peek(len(seen)) {
				s, p := seen[i], seen[i].Properties
				note("    %.20q of %d bytes from %q by %q, id %q, mode %d, priority %d, %s, came back %d times", s.Body, len(s.Body), s.Exchange, s.Key, p.MessageID,
					p.DeliveryMode, p.Priority, erlang.Term(p.Headers), it.Count)
			}
			for _, it := range q.Core.Delayed() {
				note("    delayed: %d bytes, came back %d times", it.Message.Size, it.Count)
			}
		}
	}
	return b.String()
}

// Everything in a directory of an earlier format is restored, and stays when this version continues with it.
func TestFormats(t *testing.T) {
	for _, f := range formats {
		t.Run(f.dir, func(t *testing.T) {
			dir := ofFormat(t, f.dir)
			golden, err := os.ReadFile(filepath.Join(filepath.Dir(f.dir), "contents.txt"))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				for start := range 3 {
					n, err := openAlone(Config{Dir: dir, Compat: f.compat, Store: store.Options{SegmentSize: 4096}, Logger: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = n.Close() })
					m := must{t, n.Vhost("/")}
					if got, want := m.contents(), string(golden); got != want {
						t.Fatalf("start %d: got\n%s\nwant\n%s", start, got, want)
					}
					// Which messages consumers may have had.
					var redelivered []string
					seen, err := m.v.Queue("classic").PeekMessages()
					m.do(err)
					for _, s := range seen {
						if s.Redelivered {
							redelivered = append(redelivered, string(s.Body))
						}
					}
					if got := len(redelivered) == len(seen); got != f.killed || !slices.Contains(redelivered, "shared 2") {
						t.Errorf("start %d: got %q of %d messages redelivered", start, redelivered, len(seen))
					}
					m.do(n.CheckCounts())
					m.use(start)
					m.do(n.Close())
				}
				// The delay was stopped with the broker, and continues.
				n, err := openAlone(Config{Dir: dir, Compat: f.compat, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = n.Close() })
				m := must{t, n.Vhost("/")}
				time.Sleep(time.Hour)
				synctest.Wait()
				m.wantBodies("later", "in an hour")
				m.wantBodies("delay")
				if m.v.Queue("retry") != nil { // since format 3
					m.wantBodies("retry", "is retried in an hour", "next")
				}
				m.do(n.Close())
			})
		})
	}
}

// use lets the log continue, and leaves nothing behind.
func (m must) use(start int) {
	m.t.Helper()
	m.queue("new", "x-queue-type", "quorum", "x-overflow", "reject-publish", "x-dead-letter-exchange", "amq.direct", "x-dead-letter-strategy", "at-least-once")
	m.publish("", "new", wire.Properties{DeliveryMode: 2}, fmt.Sprint("new ", start))
	q := m.v.Queue("new")
	m.v.node.Settle(q, []queue.Item{m.take(q)}, Rejected)
	_, err := q.Delete(false, false)
	m.do(err)
}

// Tools accept a directory of an earlier format.
func TestToolsOnFormats(t *testing.T) {
	for _, f := range formats {
		t.Run(f.dir, func(t *testing.T) {
			dir := ofFormat(t, f.dir)
			report, err := store.Check(t.Context(), store.Dir(dir))
			if err != nil || len(report.Damage) > 0 || report.Clean == f.killed || report.Messages == 0 {
				t.Errorf("Check: got %+v, %v; want no damage, and closed in order %t", report, err, !f.killed)
			}
			if report, err = Repair(t.Context(), dir); err != nil || len(report.Damage) > 0 || len(report.Recovered) > 0 {
				t.Errorf("Repair: got %+v, %v; want nothing to repair", report, err)
			}
			if f.killed {
				return
			}
			if _, after, err := store.Compact(t.Context(), store.Dir(dir)); err != nil || after.Messages == 0 || len(after.Damage) > 0 {
				t.Errorf("Compact: got %+v, %v; want all messages", after, err)
			}
		})
	}
}

// Definitions are written under the same names as ever.
func TestNamesOfDefinitions(t *testing.T) {
	for _, f := range formats {
		s, err := store.Open(store.Dir(ofFormat(t, f.dir)), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		kinds := make(map[string]bool)
		for _, d := range s.Definitions() {
			kind, _, err := splitKey(d.Key)
			if err != nil {
				t.Fatal(err)
			}
			kinds[kind] = true
			var value any
			switch kind {
			case vhostKind:
				value = &vhostDefinition{}
			case userKind:
				value = &User{}
			case exchangeKind:
				value = &exchangeDefinition{}
			case queueKind:
				value = &queueDefinition{}
			case policyKind, operatorKind:
				value = &Policy{}
			case bindingKind:
				value = &struct{}{}
			default:
				t.Fatalf("%s: the kind %q is not known", d.Key, kind)
			}
			if err := json.Unmarshal(d.Value, value); err != nil {
				t.Errorf("%s: %v", d.Key, err)
			}
			again, err := json.Marshal(value)
			if err != nil || string(again) != string(d.Value) {
				t.Errorf("%s: got %s, %v, want %s", d.Key, again, err, d.Value)
			}
		}
		if len(kinds) != 7 {
			t.Errorf("%s: got definitions of kinds %v, want all 7", f.dir, kinds)
		}
	}
}

// So is what no directory of an old format has. An entry here never changes: what was written under its names must be found under them.
func TestNamesOfNewerDefinitions(t *testing.T) {
	for want, value := range map[string]any{
		`{"description":"d","tags":["t"],"default_queue_type":"quorum","limits":{"max-connections":1,"max-queues":2}}`: vhostDefinition{
			VhostMetadata{Description: "d", Tags: []string{"t"}, DefaultQueueType: "quorum"}, Limits{MaxConnections: 1, MaxQueues: 2}},
		`{"Name":"u","Password":"","Hash":"h","Tags":["t"],"Permissions":{"/":{"Configure":"c","Write":"w","Read":"r"}},"LoopbackOnly":true,` +
			`"topic_permissions":{"/":{"x":{"write":"w","read":"r"}}},"limits":{"max-channels":3}}`: User{Name: "u", Hash: "h", Tags: []string{"t"},
			Permissions: map[string]Permission{"/": {Configure: "c", Write: "w", Read: "r"}}, LoopbackOnly: true,
			TopicPermissions: map[string]map[string]TopicPermission{"/": {"x": {Write: "w", Read: "r"}}}, Limits: Limits{MaxChannels: 3}},
		`{"Milliseconds":-5}`: clockShift{Milliseconds: -5},
		`{"Last":7}`:          redeliveryMark{Last: 7},
	} {
		got, err := json.Marshal(value)
		if err != nil || string(got) != want {
			t.Errorf("%T: got %s, %v, want %s", value, got, err, want)
		}
	}
	for want, key := range map[string]string{
		"clock": clockShiftKey, "doubt": redeliveryMarkKey, "global-parameter": globalKind, "vhost": vhostKind, "user": userKind, "exchange": exchangeKind,
		"queue": queueKind, "binding": bindingKind, "policy": policyKind, "operator-policy": operatorKind,
	} {
		if key != want {
			t.Errorf("kind: got %q, want %q", key, want)
		}
	}
}
