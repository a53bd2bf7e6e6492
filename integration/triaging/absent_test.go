//go:build !race

package triaging

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// A failed queue whose node is down still has its messages: neither are they gone from the index, nor does a run end. RabbitMQ answers with the same
// code as for a queue that does not exist.
func TestSQLiteNodeIsDown(t *testing.T) {
	t.Parallel()
	down, log := &downNode{queue: queue + ".failed"}, &kit.Log{}
	rabbit := lab.Embedded(t)
	c := newScene(t, setting{rabbit: rabbit, database: openSQLite(t), dialect: dialect.SQLite, silent: true, change: func(s *triage.ServiceConfig) {
		var err error
		if s.Admin, err = admin.Open(t.Context(), admin.Config{URL: rabbit.URL, Management: rabbit.Management(), Dial: down.dial}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Admin.Close)
		s.Logger = slog.New(slog.NewTextHandler(log, nil))
	}})
	c.fail(0, 5)
	c.indexed("state:failed", 5)
	kit.Drain(t, c.sub)
	down.is.Store(true)
	kit.DeleteQueue(t, c.Channel(), queue+".failed")
	r := c.start(triage.RunPlan{Action: triage.ActionReplay})
	c.eventually("the run has the reason", func() bool {
		now, err := c.store.Run(c.ctx, r.ID)
		c.must(err)
		r = now
		return now.State != triage.Running || strings.Contains(now.Reason, down.text())
	})
	if r.State != triage.Running || r.Counts.Planned != 5 {
		t.Errorf("got a run that is %s with %+v, want it to wait", r.State, r.Counts)
	}
	c.eventually("the queue is compared", func() bool { return strings.Contains(log.String(), "could not be compared") })
	if !strings.Contains(log.String(), down.text()) || c.count("state:failed") != 5 {
		t.Errorf("got %d failed messages, want 5, and the log\n%s", c.count("state:failed"), log)
	}
	down.is.Store(false) // now the queue was deleted
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Gone == 5 })
	c.indexed("state:gone", 5)
	c.check()
}

// downNode is a Config.Dial. While it is down, a queue that does not exist seems to be on a node that is down.
type downNode struct {
	queue string
	is    atomic.Bool
}

func (d *downNode) text() string {
	return "NOT_FOUND - home node 'rabbit@other' of durable queue '" + d.queue + "' in vhost '/' is down or inaccessible"
}

func (d *downNode) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &downConn{Conn: conn, node: d, frames: bufio.NewReader(conn)}, err
}

// downConn changes what the broker answers, frame by frame.
type downConn struct {
	net.Conn
	node   *downNode
	frames *bufio.Reader
	rest   []byte // of a frame
}

func (c *downConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		const head, end = 7, 1 // type, channel and size before the payload, and a byte after it
		frame := make([]byte, head)
		if _, err := io.ReadFull(c.frames, frame); err != nil {
			return 0, err
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame[3:])+end)...)
		if _, err := io.ReadFull(c.frames, frame[head:]); err != nil {
			return 0, err
		}
		c.rest = c.changed(frame)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// changed is a frame of the broker, with another text if it closes a channel because the queue does not exist.
func (c *downConn) changed(frame []byte) []byte {
	const head, length = 7, 13 // where the payload is, and in it the length of the text: after class, method and code
	isClose := bytes.HasPrefix(frame[head:], []byte{0, 20, 0, 40, 404 >> 8, 404 & 0xff})
	if frame[0] != 1 || !isClose || !c.node.is.Load() {
		return frame
	}
	after := length + 1 + int(frame[length])
	if !bytes.Contains(frame[length:after], []byte("no queue '"+c.node.queue+"'")) {
		return frame
	}
	text := c.node.text()
	payload := append(append(append(bytes.Clone(frame[head:length]), byte(len(text))), text...), frame[after:len(frame)-1]...)
	out := binary.BigEndian.AppendUint32(bytes.Clone(frame[:3]), uint32(len(payload)))
	return append(append(out, payload...), frame[len(frame)-1])
}
