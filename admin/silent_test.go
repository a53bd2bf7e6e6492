package admin_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

// Queues that do not answer, because their node is down, are listed with the reason, and delay the list once, however many they are.
func TestQueuesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil)
		silent := &silentQueues{dial: w.server.Dial, names: "silent"}
		config := admin.Config{URL: "amqp://guest:guest@embedded/", Dial: silent.connect, Layouts: make(map[string]layout.Layout)}
		for i := range 4 {
			for _, name := range []string{fmt.Sprint("silent", i), fmt.Sprint("orders", i)} {
				config.Layouts[name] = layout.Native{}
				if _, err := w.ch.QueueDeclare(name+".failed", true, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		a, err := admin.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		all, err := a.FailedQueues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		silents := 0
		for _, q := range all {
			is := strings.HasPrefix(q.Name, "silent")
			if is {
				silents++
			}
			if (q.Err != nil) != is {
				t.Errorf("queue %s: got %v", q.Name, q.Err)
			}
		}
		if took := time.Since(began); silents != 4 || took > time.Minute {
			t.Errorf("got %d queues that do not answer after %v, want 4 within the time of one", silents, took)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.FailedQueues(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the caller's time is over", err)
		}
		a.Close()
	})
}

// silentQueues is a Config.Dial. Questions about queues whose names begin so are not passed on.
type silentQueues struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	names string
}

func (s *silentQueues) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, addr)
	const protocolHeader = 8
	return &silentConn{Conn: conn, names: s.names, skip: protocolHeader}, err
}

type silentConn struct {
	net.Conn
	names string
	skip  int // bytes before the first frame
	rest  []byte
}

func (c *silentConn) Write(p []byte) (int, error) {
	var pass []byte
	some := p
	if n := min(c.skip, len(some)); n > 0 {
		pass, some = append(pass, some[:n]...), some[n:]
		c.skip -= n
	}
	const header, end, declare = 7, 1, 50<<16 | 10
	for c.rest = append(c.rest, some...); len(c.rest) >= header; {
		size := header + int(binary.BigEndian.Uint32(c.rest[3:])) + end
		if len(c.rest) < size {
			break
		}
		frame := c.rest[:size]
		// Class, method, a reserved number, the length of the name, and the name.
		if isMethod := frame[0] == 1; !isMethod || binary.BigEndian.Uint32(frame[header:]) != declare || !strings.HasPrefix(string(frame[header+7:]), c.names) {
			pass = append(pass, frame...)
		}
		c.rest = c.rest[size:]
	}
	if _, err := c.Conn.Write(pass); err != nil {
		return 0, err
	}
	return len(p), nil
}
