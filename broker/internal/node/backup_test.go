package node

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// backUp opens what is restored from a backup.
func backUp(t *testing.T, v *Vhost) *Vhost {
	t.Helper()
	dir := backedUp(t, v.node)
	must{t, v}.do(v.node.Close())
	return openVhostAs(t, dir, v.node.Config.Compat)
}

// backedUp is a directory that is restored from a backup of a node.
func backedUp(t *testing.T, n *Node) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "restored")
	var backup bytes.Buffer
	if err := n.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), store.Dir(dir), &backup); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A backup has all kinds of definitions, messages, dead letters and delays, and nothing that was deleted or settled: it has
// what a killed process leaves.
func TestBackupHasEverything(t *testing.T) {
	first := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, err := openAlone(Config{Dir: first, Compat: RabbitMQ43, Logger: slog.New(slog.DiscardHandler), Store: store.Options{SegmentSize: 4096}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		m := must{t, n.Vhost("/")}
		m.story()
		restored := backedUp(t, n)
		time.Sleep(time.Second) // for the log
		left := killed(t, n)
		m.do(n.Close())
		var contents []string
		for _, dir := range []string{left, restored} {
			v := openVhostAs(t, dir, RabbitMQ43)
			m := must{t, v}
			m.do(v.node.CheckCounts())
			contents = append(contents, m.contents())
			seen, err := v.Queue("bulk").PeekMessages()
			m.do(err)
			for _, s := range seen {
				if !s.Redelivered {
					t.Errorf("a message of %s may have been delivered, and is not marked", dir)
					break
				}
			}
			m.do(v.node.Close())
		}
		if contents[0] != contents[1] {
			t.Errorf("killed it has\n%s\nrestored from a backup\n%s", contents[0], contents[1])
		}
	})
}

// A delayed message is not delivered early by a broker that is restored from a backup: not if the restore takes a while,
// and not if it takes longer than the delay.
func TestDelaysAfterRestore(t *testing.T) {
	first := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := must{t, openVhost(t, first)}
		m.queue("target")
		m.queue("wait", "x-message-ttl", int32(10*time.Minute.Milliseconds()), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "target")
		m.publish("", "wait", wire.Properties{DeliveryMode: 2}, "one")
		time.Sleep(4 * time.Minute)
		m.publish("", "wait", wire.Properties{DeliveryMode: 2}, "two")
		dir := backedUp(t, m.v.node)
		m.do(m.v.node.Close())
		time.Sleep(3 * time.Minute)
		m.v = openVhost(t, dir)
		time.Sleep(3*time.Minute - time.Millisecond)
		synctest.Wait()
		m.wantBodies("wait", "one", "two")
		m.wantBodies("target")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		m.wantBodies("target", "one")
		dir = backedUp(t, m.v.node)
		m.do(m.v.node.Close())
		time.Sleep(time.Hour)
		m.v = openVhost(t, dir)
		synctest.Wait()
		m.wantBodies("wait")
		m.wantBodies("target", "one", "two")
		m.do(m.v.node.Close())
	})
}

func TestBackupInMemory(t *testing.T) {
	v := openVhost(t, "")
	if err := v.node.Backup(t.Context(), io.Discard); !errors.Is(err, ErrInMemory) {
		t.Errorf("got %v, want ErrInMemory", err)
	}
}

// The clock was set a moment before the backup. That makes no message older.
func TestClockSetBeforeBackup(t *testing.T) {
	first := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		open := func(dir string) must {
			n, err := openAlone(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), wall: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.Close() })
			return must{t, n.Vhost("/")}
		}
		m := open(first)
		m.queue("q", "x-message-ttl", int32(time.Hour.Milliseconds()))
		m.publish("", "q", wire.Properties{DeliveryMode: 2}, "one")
		ahead.Store(int64(365 * 24 * time.Hour))
		dir := backedUp(t, m.v.node)
		m.do(m.v.node.Close())
		m = open(dir)
		m.wantBodies("q", "one")
		m.do(m.v.node.Close())
	})
}
