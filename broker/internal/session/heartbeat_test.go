package session

import (
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// stalling is a node whose disk takes longer than a client may be silent, from a moment on.
func stalling(t *testing.T, stalls *atomic.Bool) *Server {
	t.Helper()
	n, err := Open(node.Config{
		Dir: t.TempDir(), Name: "rehop", Users: []node.User{{Name: "guest", Password: "guest", Permissions: map[string]node.Permission{"*": node.Everything()}}},
		FrameMax: 128 << 10, ChannelMax: 10, Heartbeat: time.Second, MaxMessage: 1 << 20,
		MemoryLimit: 1 << 30, MessageCache: 1 << 20, Logger: slog.New(slog.DiscardHandler),
		Store: store.Options{Crash: func(point string) {
			if point == "after a group is written" && stalls.Load() {
				time.Sleep(10 * time.Second)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A client whose messages wait for a slow disk is not considered dead, whether its connection's reader syncs them or a declaration
// waits for them.
func TestHeartbeatOfSlowDisk(t *testing.T) {
	for name, ask := range map[string]func() []byte{
		"one message":   func() []byte { return persistent(1) },
		"a group":       func() []byte { return persistent(20) },
		"a declaration": func() []byte { return wire.AppendMethod(nil, 1, &wire.QueueDeclare{Queue: "another", Durable: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stalls atomic.Bool
				n := stalling(t, &stalls)
				server, client := net.Pipe()
				n.Handle(server)
				say := func(frames []byte) {
					if _, err := client.Write(frames); err != nil {
						t.Error(err)
					}
				}
				in := wire.NewReader(client, 128<<10)
				hear := func(want wire.MethodID) {
					t.Helper()
					for {
						f, err := in.Next()
						if err != nil {
							t.Fatalf("got %v, want %s", err, want)
						}
						if isMethod(f, want) {
							return
						}
					}
				}
				go say([]byte(wire.ProtocolHeader))
				hear(wire.IDConnectionStart)
				go say(wire.AppendMethod(nil, 0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest")}))
				hear(wire.IDConnectionTune)
				hello := wire.AppendMethod(nil, 0, &wire.ConnectionTuneOK{ChannelMax: 10, FrameMax: 128 << 10, Heartbeat: 1})
				hello = wire.AppendMethod(hello, 0, &wire.ConnectionOpen{VirtualHost: "/"})
				hello = wire.AppendMethod(hello, 1, &wire.ChannelOpen{})
				hello = wire.AppendMethod(hello, 1, &wire.QueueDeclare{Queue: "q", Durable: true})
				go say(wire.AppendMethod(hello, 1, &wire.ConfirmSelect{}))
				hear(wire.IDConfirmSelectOK)

				stalls.Store(true)
				began := time.Now()
				go say(ask())
				if name == "a declaration" {
					hear(wire.IDQueueDeclareOK)
				} else {
					hear(wire.IDBasicAck)
				}
				if took := time.Since(began); took < 10*time.Second {
					t.Fatalf("inconclusive: the disk took %v", took)
				}
				stalls.Store(false)
				go say(wire.AppendMethod(nil, 0, &wire.ConnectionClose{}))
				hear(wire.IDConnectionCloseOK)
				_ = client.Close()
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// persistent is n messages for the queue q.
func persistent(n int) (frames []byte) {
	for range n {
		frames = wire.AppendMethod(frames, 1, &wire.BasicPublish{RoutingKey: "q"})
		frames = wire.AppendContent(frames, 1, wire.ClassBasic, wire.Properties{DeliveryMode: 2}.Append(nil), []byte("x"), 128<<10)
	}
	return frames
}
