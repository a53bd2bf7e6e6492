package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// kill opens what a killed process leaves on disk.
func kill(t *testing.T, v *Vhost) *Vhost {
	t.Helper()
	dir := killed(t, v.node)
	must{t, v}.do(v.node.Close())
	return openVhostAs(t, dir, v.node.Config.Compat)
}

// killed is a directory with what a node would leave on disk if its process were killed now.
func killed(t *testing.T, n *Node) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "killed")
	for _, step := range []func() error{
		func() error { return os.CopyFS(dir, os.DirFS(n.Config.Dir)) },
		func() error { return os.Remove(filepath.Join(dir, "LOCK")) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A message expires in time on a broker that does nothing else and is restarted again and again, cleanly or not.
func TestTTLCountsAcrossRestarts(t *testing.T) {
	const day = 24 * time.Hour
	for name, restart := range map[string]func(*testing.T, *Vhost) *Vhost{"closed": reopen, "killed": kill, "restored": backUp} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := must{t, openVhost(t, dir)}
				m.queue("target")
				m.queue("wait", "x-message-ttl", int32(5*day.Milliseconds()), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "target")
				m.publish("", "wait", wire.Properties{DeliveryMode: 2}, "one")
				for range 2 {
					time.Sleep(2 * day)
					m.v = restart(t, m.v)
					m.wantBodies("wait", "one")
				}
				time.Sleep(day)
				synctest.Wait()
				m.wantBodies("target", "one")
				m.do(m.v.node.Close())
			})
		})
	}
}

// All the time counts in which no broker runs. A clock that was set back meanwhile makes no message older.
func TestTTLCountsWhileAway(t *testing.T) {
	dir := t.TempDir()
	const years = 30 * 365 * 24 * time.Hour
	fill := func(t *testing.T) {
		m := must{t, openVhost(t, dir)}
		m.queue("hours", "x-message-ttl", int32(2*time.Hour.Milliseconds()))
		m.queue("days", "x-message-ttl", int32(48*time.Hour.Milliseconds()))
		m.publish("", "hours", wire.Properties{DeliveryMode: 2}, "hours")
		m.publish("", "days", wire.Properties{DeliveryMode: 2}, "days")
		m.do(m.v.node.Close())
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(years)
		fill(t)
	})
	synctest.Test(t, func(t *testing.T) { // begins at the same time as the one before, which slept
		m := must{t, openVhost(t, dir)}
		m.wantBodies("hours", "hours")
		m.wantBodies("days", "days")
		m.do(m.v.node.Close())
		time.Sleep(years + 3*time.Hour)
		m.v = openVhost(t, dir)
		m.wantBodies("hours")
		m.wantBodies("days", "days")
		m.do(m.v.node.Close())
		time.Sleep(46 * time.Hour)
		m.v = openVhost(t, dir)
		m.wantBodies("days")
		m.do(m.v.node.Close())
	})
}

// Setting the clock while the broker runs makes no message older or younger, in either direction and however the broker ends.
func TestClockSetWhileRunning(t *testing.T) {
	const ttl, years = 2 * time.Hour, 30 * 365 * 24 * time.Hour
	for name, set := range map[string]time.Duration{"ahead": years, "back": -years} {
		for ending, end := range map[string]func(*testing.T, *Node) string{
			"closed":   func(_ *testing.T, n *Node) string { return n.Config.Dir },
			"killed":   killed,
			"restored": backedUp,
		} {
			t.Run(name+", "+ending, func(t *testing.T) {
				first := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					var ahead atomic.Int64 // how far the wall clock is
					open := func(dir string) must {
						n, err := openAlone(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), wall: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { _ = n.Close() })
						return must{t, n.Vhost("/")}
					}
					m := open(first)
					m.queue("q", "x-message-ttl", int32(ttl.Milliseconds()))
					m.publish("", "q", wire.Properties{DeliveryMode: 2}, "before")
					ahead.Store(int64(set))
					time.Sleep(ttl / 2)
					m.publish("", "q", wire.Properties{DeliveryMode: 2}, "after")
					m.do(m.v.node.kept(store.Mark(m.v.node.Latest.Load())))
					dir := end(t, m.v.node)
					m.do(m.v.node.Close())
					m = open(dir)
					m.wantBodies("q", "before", "after")
					m.do(m.v.node.Close())
					time.Sleep(ttl / 2)
					m = open(dir)
					m.wantBodies("q", "after")
					time.Sleep(ttl / 2)
					synctest.Wait()
					m.wantBodies("q")
					m.do(m.v.node.Close())
				})
			})
		}
	}
}
