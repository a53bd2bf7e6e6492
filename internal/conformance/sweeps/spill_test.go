package sweeps_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/rehoptest"
)

// narrow is a connection by which what is read comes slowly: three times of readAhead in a second.
type narrow struct{ net.Conn }

func (n narrow) Read(p []byte) (int, error) {
	count, err := n.Conn.Read(p[:min(len(p), readAhead/64)])
	time.Sleep(time.Duration(count) * time.Second / (3 * readAhead))
	return count, err
}

// A sweep that has no room for what comes gives it back and takes it again. The order is kept, although the broker has not sent all of it
// by then, and has taken all of it back once before. If the delivery limit is not known, it is published anew in its order.
func TestOrderOfWhatFindsNoRoom(t *testing.T) {
	const n, size = 460, readAhead / 16
	for _, c := range []struct {
		release   broker.Compat
		from, end int // the large ones
		slow      int // after which the sweep takes a while
		replays   bool
		known     bool // the delivery limit, which is high
	}{
		// The last window has all that are left.
		{broker.RabbitMQ310, 400, n, 300, false, true}, {broker.RabbitMQ43, 400, n, 300, false, true},
		// There are others behind the second window.
		{broker.RabbitMQ310, 200, 225, 100, false, true}, {broker.RabbitMQ43, 200, 225, 100, true, true},
		// The first of the others is large, too: it comes only a while after the window for it was opened.
		{broker.RabbitMQ310, 265, 292, 100, false, true}, {broker.RabbitMQ43, 265, 292, 100, false, true},
		// Those that are published anew come to the window that has no room.
		{broker.RabbitMQ310, 400, n, 300, false, false}, {broker.RabbitMQ40, 400, n, 410, false, false},
	} {
		t.Run(fmt.Sprint(c.release, "/", c.from, map[bool]string{false: "/LimitNotKnown"}[c.known]), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := make([]rehop.Message, n)
				for i := range all {
					all[i].ID, all[i].Headers = fmt.Sprintf("m%d", i), map[string]any{"wanted": fmt.Sprint(i%3 == 1)}
					if i >= c.from && i < c.end {
						all[i].Body = make([]byte, size)
					}
				}
				var server *broker.Server
				b, _ := deskOf(t, all, rehoptest.WithServer(func(s *broker.Server) { s.Compat, server = c.release, s }))
				config, api := b.Config(), managementOf(t, server)
				open := func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *admin.Admin {
					asking := admin.Config{URL: config.URL, Dial: dial, ReadAhead: readAhead}
					if c.known {
						asking.Management, asking.HTTP = management, api
					}
					a, err := admin.Open(t.Context(), asking)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(a.Close)
					return a
				}
				if n, err := open(config.Dial).CountFailed(t.Context(), "q", admin.Filter{}); err != nil || n.Messages != len(all) {
					t.Fatalf("got %d messages and %v, want %d", n.Messages, err, len(all))
				}
				a := open(func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := config.Dial(ctx, network, addr)
					return narrow{conn}, err
				})
				pause := sync.OnceFunc(func() { time.Sleep(400 * time.Millisecond) }) // more than readAhead comes, and not all
				var every, kept, wanted []string
				for i, m := range all {
					every = append(every, m.ID)
					if c.replays && i%3 == 1 {
						wanted = append(wanted, m.ID)
					} else {
						kept = append(kept, m.ID)
					}
				}
				if c.replays {
					_, err := a.Replay(t.Context(), "q", admin.Options{Filter: admin.Filter{Header: map[string]string{"wanted": "true"}}, Progress: func(p admin.Progress) {
						if p.Seen >= c.slow {
							pause()
						}
					}})
					if err != nil {
						t.Fatal(err)
					}
					wantInOrder(t, "the queue", idsOf(b.Messages("q")), wanted)
				} else {
					out := new(idsOnly)
					out.each = func() {
						if len(out.ids) == c.slow {
							pause()
						}
					}
					if _, err := a.Export(t.Context(), "q", out, admin.Filter{}); err != nil {
						t.Fatal(err)
					}
					wantInOrder(t, "the export", out.ids, every)
				}
				wantInOrder(t, "the failed queue", idsOf(b.Messages("q.failed")), kept)
			})
		})
	}
}

// What finds no room is given back once in a sweep, and not each time when others behind it find none: with a low delivery limit it would be lost.
// With a limit of 1, which leaves one return for a process that dies, it is not given back at all: there is room for it, whatever its size.
func TestLimitOfWhatFindsNoRoom(t *testing.T) {
	sizes := make([]int, 20)
	for _, i := range []int{0, 1, 2, 6, 7, 8, 12, 13, 14, 15, 16} {
		sizes[i] = readAhead * 3 / 8
	}
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40} {
		for _, limit := range []int{1, 2} {
			t.Run(fmt.Sprintf("%v/limit=%d", release, limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, a, name := limitedQueue(t, release, limit, sizes, func(c *admin.Config) {
						dial := c.Dial
						c.ReadAhead, c.Management = readAhead, management
						c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
							conn, err := dial(ctx, network, addr)
							return narrow{conn}, err
						}
					})
					returnAll(t, b, name, len(sizes))
					out := new(idsOnly)
					out.each = func() { time.Sleep(400 * time.Millisecond) } // more than readAhead comes
					if count, err := a.Export(t.Context(), "q", out, admin.Filter{}); err != nil || count != len(sizes) {
						t.Errorf("export: got %d messages and %v, want %d", count, err, len(sizes))
					}
					wantEachOnce(t, b, name, len(sizes))
				})
			})
		}
	}
}

// returnAll takes n messages of a queue, and returns them.
func returnAll(t *testing.T, b *rehoptest.Broker, name string, n int) {
	t.Helper()
	ch, end := channelOf(t, b)
	defer end()
	for range n {
		if _, ok, err := ch.Get(name, false); err != nil || !ok {
			t.Fatalf("get a message of queue %q: got %v and %v, want one", name, ok, err)
		}
	}
}

func idsOf(messages []rehoptest.Message) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

func wantInOrder(t *testing.T, where string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %q, want %q", where, got, want)
	}
}

// idsOnly keeps the ids of exported messages, whose lines come in one call each or in several.
type idsOnly struct {
	each func()
	ids  []string
	line []byte
}

func (w *idsOnly) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		w.line = append(w.line, part[:min(len(part), 40)]...)
		if bytes.HasSuffix(part, []byte("\n")) {
			id, _, _ := strings.Cut(strings.TrimPrefix(string(w.line), `{"id":"`), `"`)
			w.ids, w.line = append(w.ids, id), nil
			w.each()
		}
	}
	return len(p), nil
}
