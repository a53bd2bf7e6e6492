package node

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// kill leaves a node as a process does that is killed, and opens what that leaves on disk.
func kill(t *testing.T, v *Vhost) *Vhost {
	t.Helper()
	m := must{t, v}
	dir := filepath.Join(t.TempDir(), "killed")
	m.do(os.CopyFS(dir, os.DirFS(v.node.config.Dir)))
	m.do(os.Remove(filepath.Join(dir, "LOCK")))
	m.do(v.node.Close())
	return openVhostAs(t, dir, v.node.config.Compat)
}

// A message expires in time on a broker that does nothing else and is restarted again and again, in order or not.
func TestTTLCountsAcrossRestarts(t *testing.T) {
	const day = 24 * time.Hour
	for name, restart := range map[string]func(*testing.T, *Vhost) *Vhost{"closed": reopen, "killed": kill} {
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

// The time for which no broker runs counts, all of it. A clock that was set back meanwhile makes no message older.
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
