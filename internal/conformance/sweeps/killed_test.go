package sweeps_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/admin"
)

// muted is connections. From a certain ack on, nothing that the one with acks sends reaches the broker.
type muted struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	mu   sync.Mutex
	acks int // that still reach the broker
	all  []net.Conn
}

func (m *muted) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &mutedConn{Conn: conn, muted: m}
	m.mu.Lock()
	m.all = append(m.all, c)
	m.mu.Unlock()
	return c, nil
}

// cut closes all connections, as the end of the process does.
func (m *muted) cut() {
	m.mu.Lock()
	all := m.all
	m.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// passes reports whether the next ack reaches the broker.
func (m *muted) passes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acks--
	return m.acks >= 0
}

// mutedConn passes on whole frames. Only one goroutine writes at a time.
type mutedConn struct {
	net.Conn
	muted  *muted
	begun  bool   // the protocol header was sent
	part   []byte // of the next frame
	silent bool
}

func (c *mutedConn) Write(p []byte) (int, error) {
	const header, around = 8, 8 // bytes of the protocol header, and of a frame besides its payload
	c.part = append(c.part, p...)
	pass := 0
	for !c.silent {
		rest, size := c.part[pass:], header
		if c.begun {
			if len(rest) < around {
				break
			}
			size = around + int(binary.BigEndian.Uint32(rest[3:]))
		}
		if len(rest) < size {
			break
		}
		basicAck := []byte{0, 60, 0, 80}
		if c.begun && rest[0] == 1 && bytes.Equal(rest[7:11], basicAck) && !c.muted.passes() {
			c.silent = true
			break
		}
		c.begun = true
		pass += size
	}
	if pass > 0 {
		if _, err := c.Conn.Write(c.part[:pass]); err != nil {
			return 0, err
		}
		c.part = append(c.part[:0], c.part[pass:]...)
	}
	return len(p), nil
}

// A replay that is killed before the broker has got a removal leaves at most 256 messages in both queues, whichever removal it is.
func TestReplayKilledBeforeRemoval(t *testing.T) {
	const n, most = 1000, 256
	for passed := range 6 {
		t.Run(fmt.Sprint(passed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := desk(t, n)
				config := b.Config()
				wire := &muted{dial: config.Dial, acks: passed}
				a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: wire.connect})
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				var replay sync.WaitGroup
				replay.Go(func() {
					if _, err := a.Replay(t.Context(), "q", admin.Options{}); err == nil {
						t.Error("the replay ended without an error, want that its connection was lost")
					}
				})
				time.Sleep(5 * time.Second) // it has published all that it does before the broker answers
				wire.cut()
				replay.Wait()
				synctest.Wait() // the broker has taken back what was not removed
				seen := make(map[string]bool)
				both := 0
				for _, queue := range []string{"q", "q.failed"} {
					for _, m := range b.Messages(queue) {
						seen[m.ID] = true
						both++
					}
				}
				if len(seen) != n {
					t.Errorf("got %d messages in both queues together, want %d", len(seen), n)
				}
				if twice := both - len(seen); twice == 0 || twice > most {
					t.Errorf("got %d messages in both queues, want some, and at most %d", twice, most)
				}
			})
		})
	}
}
