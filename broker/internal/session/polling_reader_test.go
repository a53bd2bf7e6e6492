package session

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
)

// sleeper is a connection from which every read gets "slept".
type sleeper struct{ net.Conn }

func (sleeper) Read(p []byte) (int, error) { return copy(p, "slept"), nil }

// watcher finds "seen" if something arrives.
type watcher struct {
	comes bool
	polls int
}

func (w *watcher) ReadWithin(p []byte, limit time.Duration) (int, error) {
	w.polls++
	if limit != pollTime || !w.comes {
		return 0, nil
	}
	return copy(p, "seen"), nil
}

func TestPolling(t *testing.T) {
	w := &watcher{comes: true}
	l := &pollingReader{conn: sleeper{}, prompt: w}
	read := func(expects bool) string {
		t.Helper()
		l.expects = expects
		p := make([]byte, 10)
		n, err := l.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(p[:n])
	}
	if got := read(false); got != "slept" || w.polls != 0 {
		t.Errorf("a client that is not expected to send: got %s after %d looks", got, w.polls)
	}
	for range 100 {
		if got := read(true); got != "seen" {
			t.Fatalf("a client that sends at once: got %s", got)
		}
	}
	if w.polls != 100 {
		t.Errorf("got %d looks for 100 messages", w.polls)
	}
	if l.Read(make([]byte, 10)); w.polls != 100 {
		t.Error("it looks for what nobody expects")
	}
	*w = watcher{}
	for range 100_000 {
		if got := read(true); got != "slept" {
			t.Fatalf("a client that sends at leisure: got %s", got)
		}
	}
	if w.polls < 2 || w.polls > 120 {
		t.Errorf("got %d looks in vain for 100,000 messages, want about one in 1,000", w.polls)
	}
	*w = watcher{comes: true}
	for range 1 << (maxMisses - fewMisses + 1) {
		read(true)
	}
	for range 10 {
		if got := read(true); got != "seen" {
			t.Errorf("a client that hurries again: got %s", got)
		}
	}
	for i := range 100 {
		w.comes = i%3 > 0
		if got, want := read(true), map[bool]string{true: "seen", false: "slept"}[w.comes]; got != want {
			t.Errorf("a client that is late now and then: got %s, want %s", got, want)
		}
	}
	l.prompt = nil
	if got := read(true); got != "slept" {
		t.Errorf("no way to look: got %s", got)
	}
}

// The reader polls after a commit of its own that was the only one since the last.
func TestPollingAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that nothing is durable before a flush
		n, err := Open(node.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		server, client := net.Pipe()
		c := newConnection(n, server)
		commit := func() store.Mark {
			b := n.Batch()
			b.Publish(&store.Message{}, store.Content{Key: "q", Body: []byte("x")}, store.Meta{TTL: store.NoTTL, Persistent: true}, []store.QueueID{n.NewQueueID()})
			return n.Commit(b)
		}
		ch := newChannel(c, 1)
		c.vhost = n.Vhost("/")
		publish := func(times int) {
			for range times {
				ch.addConfirm(publication{content: &store.Content{}}, node.Outcome{Routed: true, Mark: commit()})
			}
			c.flushConfirms()
		}
		publish(1)
		for _, times := range []int{1, 1, 2, 1, 64, 1, 1} {
			publish(times)
			if got, want := c.poller.expects, times == 1; got != want {
				t.Errorf("after %d commits: it polls: %t", times, got)
			}
		}
		commit() // of another connection
		c.needsFlush = true
		if c.flushConfirms(); c.poller.expects {
			t.Error("it polls after a commit of another publisher")
		}
		_, _ = client.Close(), server.Close()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}
