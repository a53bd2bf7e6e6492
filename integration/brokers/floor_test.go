package brokers

import (
	"fmt"
	"log"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/prompt"
	"github.com/rehop/rehop/internal/wire"
)

// The floor is a process with little else to do than a broker must which syncs before it confirms: it knows as much AMQP as it takes to let a
// client publish, writes and syncs in groups as many bytes as messages have, and confirms. There is no queue, nothing is routed or checked, and nothing can be
// read again. It shows how much of the time is the client's and the disk's.

// floorIn names the variable that makes this program the floor, with its value as directory, and floorSize the one with the size of a
// record.
const (
	floorIn   = "REHOP_BENCH_FLOOR"
	floorSize = "REHOP_BENCH_FLOOR_SIZE"
	floorName = "bare disk behind AMQP"
)

func beFloor(dir string) int {
	n, err := strconv.Atoi(os.Getenv(floorSize))
	if err == nil {
		err = serveFloor(dir, n)
	}
	if err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// serveFloor serves one client after the other, without end.
func serveFloor(dir string, n int) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	l, err := disks[1].open(dir)
	if err != nil {
		return err
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		if err := confirmAll(conn, l, n); err != nil {
			return err
		}
	}
}

// confirmAll serves one client: what has come by the time of a sync is synced at once, and confirmed at once. Its error is the disk's; that of a
// connection ends only this.
func confirmAll(conn net.Conn, l *bareLog, size int) error {
	defer conn.Close()
	client := &attentive{conn: conn, eyes: prompt.From(conn)}
	in := wire.NewReader(client, 128<<10)
	if _, err := in.ProtocolHeader(); err != nil {
		return nil
	}
	answer := wire.AppendMethod(nil, 0, &wire.ConnectionStart{VersionMinor: 9, Mechanisms: "PLAIN", Locales: "en_US"})
	var records []byte
	var left, come, confirmed uint64 // bytes of a body; messages
	for {
		if len(answer) > 0 {
			if _, err := conn.Write(answer); err != nil {
				return nil
			}
			answer = answer[:0]
		}
		frame, err := in.Next()
		if err != nil {
			return nil
		}
		switch frame.Type {
		case wire.FrameMethod:
			if m := floorAnswers(frame.Payload); m != nil {
				answer = wire.AppendMethod(answer, frame.Channel, m)
			}
		case wire.FrameHeader:
			h, err := wire.ParseHeader(frame.Payload)
			if err != nil {
				return nil
			}
			left = h.BodySize
		case wire.FrameBody:
			left -= uint64(len(frame.Payload))
		}
		if frame.Type != wire.FrameMethod && left == 0 {
			come++
			records = slices.Grow(records, size)[:len(records)+size]
		}
		if come > confirmed && !in.Ready() {
			if err := l.append(records); err != nil {
				return err
			}
			answer = wire.AppendAck(answer, frame.Channel, come, come > confirmed+1)
			client.polls = come == confirmed+1
			records, confirmed = records[:0], come
		}
	}
}

// attentive reads as the broker does: after the confirm of one message it looks for the next for a moment before it sleeps.
type attentive struct {
	conn  net.Conn
	eyes  prompt.Reader // nil: it sleeps at once
	polls bool
}

func (a *attentive) Read(p []byte) (int, error) {
	if a.polls && a.eyes != nil {
		a.polls = false
		if n, err := a.eyes.ReadWithin(p, 75*time.Microsecond); n > 0 || err != nil {
			return n, err
		}
	}
	return a.conn.Read(p)
}

// floorAnswers is what a client wants to hear after a method, or nil.
func floorAnswers(payload []byte) wire.Method {
	id, _ := wire.PeekMethod(payload)
	switch id {
	case wire.IDConnectionStartOK:
		return &wire.ConnectionTune{ChannelMax: 2047, FrameMax: 128 << 10}
	case wire.IDConnectionOpen:
		return &wire.ConnectionOpenOK{}
	case wire.IDConnectionClose:
		return &wire.ConnectionCloseOK{}
	case wire.IDChannelOpen:
		return &wire.ChannelOpenOK{}
	case wire.IDChannelClose:
		return &wire.ChannelCloseOK{}
	case wire.IDQueueDeclare:
		return &wire.QueueDeclareOK{}
	case wire.IDQueueDelete:
		return &wire.QueueDeleteOK{}
	case wire.IDConfirmSelect:
		return &wire.ConfirmSelectOK{}
	}
	return nil
}

// startFloor starts that process, until the end of the test.
func startFloor(t *testing.T) contender {
	t.Helper()
	c := &child{dir: t.TempDir(), env: []string{floorSize + "=" + strconv.Itoa(*size+recordOverhead)}, role: floorIn}
	c.begin(t)
	return contender{name: floorName, url: c.url}
}
