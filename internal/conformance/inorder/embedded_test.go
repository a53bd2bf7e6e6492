package inorder_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/inorder"
	"github.com/rehop/rehop/internal/conformance/seeds"
	"github.com/rehop/rehop/rehoptest"
)

// lines are the connections of a role, which can be cut.
type lines struct {
	mu    sync.Mutex
	conns map[string][]net.Conn
}

func (l *lines) dial(role string, plain func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := plain(ctx, network, address)
		if err == nil {
			l.mu.Lock()
			l.conns[role] = append(l.conns[role], c)
			l.mu.Unlock()
		}
		return c, err
	}
}

func (l *lines) cut(role string) {
	l.mu.Lock()
	conns := l.conns[role]
	l.conns[role] = nil
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// newWorkload is one on an embedded broker.
func newWorkload(t *testing.T, seed uint64) (*inorder.Workload, *lines) {
	b := rehoptest.Open(t)
	cutter := &lines{conns: make(map[string][]net.Conn)}
	return &inorder.Workload{T: t, Script: inorder.Script{Seed: seed, Queue: "ordered"}, Config: func(role string) rehop.Config {
		config := b.Config()
		config.Hooks, config.Name = nil, role
		config.Dial = cutter.dial(role, config.Dial)
		return config
	}}, cutter
}

// within is how long a run may take, in virtual time.
const within = 10 * time.Hour

// TestEmbedded breaks things on the embedded broker, in virtual time.
func TestEmbedded(t *testing.T) {
	seed := seeds.Of(t)
	for _, c := range []struct {
		name   string
		script inorder.Script
	}{
		{"OneQueue", inorder.Script{}},
		{"Partitions", inorder.Script{Partitions: 4}},
		{"Halt", inorder.Script{Halt: true}},
		{"HaltInPartitions", inorder.Script{Halt: true, Partitions: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, cutter := newWorkload(t, seed)
				w.Script.Partitions, w.Script.Halt = c.script.Partitions, c.script.Halt
				comeAndGo(t, w, cutter)
			})
		})
	}
}

// comeAndGo cuts connections, and lets processes come and go.
func comeAndGo(t *testing.T, w *inorder.Workload, cutter *lines) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	w.Start(ctx)
	w.Run(ctx, 500)
	next := 2
	names := []string{"first", "second"}
	for i := range 12 {
		switch i % 4 {
		case 0, 2:
			name := names[i/2%2]
			w.Fault(ctx, name, "connections cut", 300, func() { cutter.cut(name) })
		case 1:
			w.Fault(ctx, "publish", "connections cut", 300, func() { cutter.cut("publish") })
		case 3:
			old := names[0]
			next++
			names = []string{names[1], fmt.Sprint("process ", next)}
			w.Join(ctx, names[1])
			w.Leave(ctx, old)
			w.Run(ctx, 300)
		}
	}
	t.Log(w.Finish(ctx).Line())
}

// TestRestart closes the embedded broker and opens it again on its directory, in virtual time.
func TestRestart(t *testing.T) {
	seed := seeds.Of(t)
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint("Partitions", partitions), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { restart(t, dir, seed, partitions) })
		})
	}
}

// durable is an embedded broker that can be restarted.
type durable struct {
	dir    string
	mu     sync.Mutex
	server *broker.Server
}

// open starts the broker. What is under test is the order of things, which does not need a disk that syncs.
func (d *durable) open(t *testing.T) {
	t.Helper()
	server := &broker.Server{Dir: d.dir, Sync: broker.SyncNever, Logger: slog.New(slog.DiscardHandler)}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = server
}

func (d *durable) close(t *testing.T) {
	t.Helper()
	if err := d.current().Close(); err != nil {
		t.Fatal(err)
	}
}

func (d *durable) current() *broker.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server
}

func restart(t *testing.T, dir string, seed uint64, partitions int) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	d, random := &durable{dir: dir}, rand.New(rand.NewPCG(seed, 5))
	d.open(t)
	defer d.close(t)
	w := &inorder.Workload{T: t, Script: inorder.Script{Seed: seed, Queue: "ordered", Partitions: partitions}, Config: func(role string) rehop.Config {
		return rehop.Config{URL: "amqp://guest:guest@embedded/", Name: role, Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				return d.current().Dial(ctx, network, address)
			}}
	}}
	w.Start(ctx)
	w.Run(ctx, 500)
	for range 5 {
		w.Fault(ctx, "", "broker restarted", 200+random.IntN(200), func() {
			d.close(t)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			d.open(t)
		})
	}
	t.Log(w.Finish(ctx).Line())
}
