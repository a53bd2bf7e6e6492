package node

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// retrying declares a quorum queue that delays returned messages, by a minute for each failure.
func (m must) retrying(name string) *Queue {
	m.t.Helper()
	return m.queue(name, "x-queue-type", "quorum", "x-delayed-retry-type", "all", "x-delayed-retry-min", time.Minute.Milliseconds(),
		"x-delayed-retry-max", time.Hour.Milliseconds())
}

// giveBack takes a message and returns it to its queue.
func (m must) giveBack(name string, a Answer) {
	m.t.Helper()
	q := m.v.Queue(name)
	m.v.node.Settle(q, []queue.Item{m.take(q)}, a)
}

func (m must) wantDelayed(name string, delayed int, next time.Duration) {
	m.t.Helper()
	if s := m.v.Queue(name).Status(); s.Delayed != delayed || s.NextReady != next {
		m.t.Errorf("queue %q: got %d delayed messages, the next ready in %s, want %d in %s", name, s.Delayed, s.NextReady, delayed, next)
	}
	m.do(m.v.node.CheckCounts())
}

// A delay ends at the same time as without a restart, clean or not.
func TestDelayedRetryAcrossRestarts(t *testing.T) {
	for name, restart := range map[string]func(*testing.T, *Vhost) *Vhost{"closed": reopen, "killed": kill, "restored": backUp} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := must{t, openVhostAs(t, dir, RabbitMQ43)}
				m.retrying("q")
				m.publish("", "q", wire.Properties{}, "a")
				m.publish("", "q", wire.Properties{}, "b")
				m.giveBack("q", RejectedBack)
				m.wantDelayed("q", 1, time.Minute)
				time.Sleep(20 * time.Second)
				m.v = restart(t, m.v)
				m.wantDelayed("q", 1, 40*time.Second)
				m.wantBodies("q", "b")
				if wait, waits := m.v.node.NextDue(); !waits || wait != 40*time.Second {
					t.Errorf("next due: got %s, %t, want 40s", wait, waits)
				}
				time.Sleep(40 * time.Second)
				synctest.Wait()
				m.wantDelayed("q", 0, 0)
				m.wantBodies("q", "a", "b")
				// Its failures are restored, too.
				m.giveBack("q", RejectedBack)
				m.wantDelayed("q", 1, 2*time.Minute)
				time.Sleep(time.Second) // for the log
				m.v = restart(t, m.v)
				m.wantDelayed("q", 1, 2*time.Minute-time.Second)
				m.do(m.v.node.Close())
				time.Sleep(time.Hour)
				m.v = openVhostAs(t, m.v.node.Config.Dir, RabbitMQ43)
				m.wantDelayed("q", 0, 0)
				m.wantBodies("q", "a", "b")
				m.do(m.v.node.Close())
			})
		})
	}
}

// A delay that is over stays over, whatever happens to the message.
func TestDelayedRetryIsForgotten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := must{t, openVhostAs(t, dir, RabbitMQ43)}
		m.retrying("q")
		m.publish("", "q", wire.Properties{}, "a")
		m.giveBack("q", NackedBack)
		time.Sleep(time.Minute)
		synctest.Wait()
		m.do(m.v.PutPolicy(Policy{Name: "off", Definition: definition{"delayed-retry-type": "disabled"}}))
		m.giveBack("q", NackedBack)
		m.v = reopen(t, m.v)
		m.wantDelayed("q", 0, 0)
		m.wantBodies("q", "a")
		m.do(m.v.node.Close())
	})
}

// Users cannot set a shorter delay than the operator's minimum.
func TestMergedRetry(t *testing.T) {
	user := definition{"delayed-retry-type": "all", "delayed-retry-min": int64(5), "delayed-retry-max": int64(50)}
	for _, c := range []struct {
		operator definition
		want     string
	}{
		{definition{"delayed-retry-type": "failed"}, "map[delayed-retry-max:50 delayed-retry-min:5 delayed-retry-type:failed]"},
		{definition{"delayed-retry-min": int64(7), "delayed-retry-max": int64(40)}, "map[delayed-retry-max:40 delayed-retry-min:7 delayed-retry-type:all]"},
		{definition{"delayed-retry-min": int64(3), "delayed-retry-max": int64(60)}, "map[delayed-retry-max:50 delayed-retry-min:5 delayed-retry-type:all]"},
	} {
		if got := fmt.Sprint(merged(user, c.operator)); got != c.want {
			t.Errorf("%v by the operator: got %s, want %s", c.operator, got, c.want)
		}
	}
}
