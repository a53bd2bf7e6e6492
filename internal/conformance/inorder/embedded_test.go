package inorder

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
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

// TestEmbedded cuts connections, and lets processes come and go, on the embedded broker, in virtual time.
func TestEmbedded(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint("Partitions", partitions), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { embedded(t, partitions) })
		})
	}
}

func embedded(t *testing.T, partitions int) {
	b := rehoptest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
	defer cancel()
	cutter := &lines{conns: make(map[string][]net.Conn)}
	w := &Workload{T: t, Queue: "ordered", Partitions: partitions, Config: func(role string) rehop.Config {
		config := b.Config()
		config.Hooks, config.Name = nil, role
		config.Dial = cutter.dial(role, config.Dial)
		return config
	}}
	w.Start(ctx)
	w.Run(ctx, 500)
	next := 2
	names := []string{"first", "second"}
	for i := range 12 {
		switch i % 4 {
		case 0, 2:
			cutter.cut(names[i/2%2])
		case 1:
			cutter.cut("publish")
		case 3:
			old := names[0]
			next++
			names = []string{names[1], fmt.Sprint("process ", next)}
			w.Join(ctx, names[1])
			w.Leave(ctx, old)
		}
		w.Run(ctx, 300)
	}
	t.Log(w.Finish(ctx))
}
