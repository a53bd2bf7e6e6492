package node

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// writtenFormat is for changes of the format: commit what is written there as testdata/format<version>, and add it to formats.
var writtenFormat = flag.String("written-format", "", "keep what TestPresentFormat writes in this directory")

// TestPresentFormat writes a directory in today's format and opens it: after a clean stop, and as a killed process leaves it.
func TestPresentFormat(t *testing.T) {
	base := *writtenFormat
	if base == "" {
		base = t.TempDir()
	}
	closed, killed := filepath.Join(base, "closed"), filepath.Join(base, "killed")
	synctest.Test(t, func(t *testing.T) {
		indexed := make(chan struct{}, 100)
		crash := func(point string) {
			if point == "after an index is written" {
				indexed <- struct{}{}
			}
		}
		n, err := openAlone(Config{Dir: closed, Compat: RabbitMQ43, Logger: slog.New(slog.DiscardHandler), Store: store.Options{SegmentSize: 4096, Crash: crash}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		m := must{t, n.Vhost("/")}
		m.story()
		<-indexed
		synctest.Wait()
		m.do(os.CopyFS(killed, os.DirFS(closed)))
		m.do(n.Close())
		for _, dir := range []string{closed, killed} {
			m.do(os.Remove(filepath.Join(dir, "LOCK")))
		}
		if *writtenFormat != "" {
			n, err := openAlone(Config{Dir: ofFormat(t, closed), Compat: RabbitMQ43, Logger: slog.New(slog.DiscardHandler)})
			m.do(err)
			m.do(os.WriteFile(filepath.Join(base, "contents.txt"), []byte(must{t, n.Vhost("/")}.contents()), 0o600))
			m.do(n.Close())
		}
		var contents []string
		for _, dir := range []string{closed, killed} {
			n, err := openAlone(Config{Dir: ofFormat(t, dir), Compat: RabbitMQ43, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.Close() })
			m := must{t, n.Vhost("/")}
			m.do(n.CheckCounts())
			contents = append(contents, m.contents())
			m.do(n.Close())
		}
		if contents[0] != contents[1] {
			t.Errorf("closed in order it has\n%s\nkilled\n%s", contents[0], contents[1])
		}
	})
}

// story does a little of everything that is kept.
func (m must) story() {
	m.t.Helper()
	n, v := m.v.node, m.v
	m.everything()
	m.do(v.PutPolicy(Policy{Name: "limit", Pattern: "^bulk", Operator: true, Definition: definition{"max-length": 100000}}))
	m.do(putUser(n, User{Name: "shop", Password: "secret", Tags: []string{"monitoring"}, Permissions: map[string]Permission{"/": Everything()}}))
	m.queue("classic")
	m.queue("quorum-2", "x-queue-type", "quorum")
	m.queue("bulk")
	m.queue("priorities", "x-max-priority", int8(9))
	m.queue("later")
	m.queue("delay", "x-message-ttl", int32(3_600_000), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "later")
	m.queue("stranding", "x-queue-type", "quorum", "x-overflow", "reject-publish", "x-dead-letter-exchange", "amq.direct", "x-dead-letter-strategy", "at-least-once")
	m.queue("halfway", "x-queue-type", "quorum", "x-overflow", "reject-publish", "x-dead-letter-exchange", "amq.topic", "x-dead-letter-strategy", "at-least-once")
	for _, q := range []*Queue{m.queue("has a copy"), m.queue("is full", "x-max-length", int32(0), "x-overflow", "reject-publish")} {
		m.do(v.Bind(v.Exchange("amq.topic"), Destination{Queue: q}, "halfway", nil))
	}
	m.queue("retry", "x-queue-type", "quorum", "x-delayed-retry-type", "all", "x-delayed-retry-min", int32(3_600_000))
	gone := m.queue("deleted")
	for _, name := range []string{"classic", "quorum-2"} {
		m.do(v.Bind(v.Exchange("amq.fanout"), Destination{Queue: v.Queue(name)}, "", nil))
	}
	kept := wire.Properties{DeliveryMode: 2, ContentType: "text/plain", Headers: table("n", int64(7), "s", "ü")}
	for i := range 6 {
		p := kept
		p.MessageID = fmt.Sprint("id", i)
		m.publish("amq.fanout", "key", p, fmt.Sprint("shared ", i))
	}
	for i, priority := range []uint8{1, 5, 0, 5} {
		m.publish("", "priorities", wire.Properties{DeliveryMode: 2, Priority: priority}, fmt.Sprint("priority ", i))
	}
	m.publish("", "deleted", kept, "of a queue that is deleted")
	m.publish("", "delay", kept, "in an hour")
	m.publish("", "retry", kept, "is retried in an hour")
	m.publish("", "retry", kept, "next")
	m.publish("", "stranding", kept, "dead")
	m.publish("", "stranding", kept, "alive")
	m.publish("", "halfway", kept, "dead")
	expiring := kept
	expiring.Expiration = "7200000"
	m.publish("", "classic", expiring, "expires by itself")
	m.publish("", "classic", wire.Properties{DeliveryMode: 1}, "transient")
	m.publish("", "quorum-2", wire.Properties{DeliveryMode: 1}, "transient")
	for i := range 40 {
		m.publish("", "bulk", kept, fmt.Sprintf("bulk %d %s", i, strings.Repeat(".", 400)))
	}
	m.publish("", "bulk", kept, strings.Repeat("large ", 11000))
	take := func(name string, a Answer) {
		q := v.Queue(name)
		n.Settle(q, []queue.Item{m.take(q)}, a)
	}
	take("retry", RejectedBack)
	take("stranding", Rejected)
	take("halfway", Rejected)
	take("classic", Acked)
	take("classic", Rejected)
	take("classic", Lost)
	m.take(v.Queue("classic")) // and never answered
	take("quorum-2", Acked)
	take("quorum-2", Lost)
	take("quorum-2", Lost)
	for range 12 {
		take("bulk", Acked)
	}
	_, err := gone.Delete(false, false)
	m.do(err)
	time.Sleep(time.Second)
	m.publish("", "classic", kept, "last")
	time.Sleep(time.Second)
}
