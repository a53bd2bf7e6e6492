package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/state/statetest"
)

var nodes = []string{"a1", "a2", "a3"}

// network is that of a new state directory, with a block of ports that nobody else uses.
func network(t *testing.T, block ports.Block) Network {
	t.Helper()
	return Of(statetest.Dir(t, block))
}

// Directories whose blocks of ports do not overlap have other addresses, and those of other paths other names.
func TestNamesAndAddresses(t *testing.T) {
	seen := map[string]ports.Block{}
	for _, block := range []ports.Block{1024, 28600, 28700, 28801, 28901, 65436} {
		n := network(t, block)
		if name := n.Namespace("a1"); len(name) > 15 {
			t.Errorf("%s is too long for an interface", name)
		}
		_, tests, err := net.ParseCIDR("198.18.0.0/15")
		if err != nil {
			t.Fatal(err)
		}
		for node := range 4 {
			address := net.ParseIP(n.Address(node))
			if address == nil || !tests.Contains(address) || int(address.To4()[3])%size != node+1 {
				t.Errorf("block %d, node %d: got address %s", block, node, n.Address(node))
			}
		}
		for _, own := range []string{n.Address(0), n.name()} {
			if other, ok := seen[own]; ok {
				t.Errorf("blocks %d and %d both have %s", other, block, own)
			}
			seen[own] = block
		}
	}
}

// claimed is a block of ports that this process alone has: no state directory chooses one in which something listens.
func claimed(t *testing.T) ports.Block {
	t.Helper()
	for b := ports.Block(33000); b < 60000; b += ports.Size {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b)); err == nil {
			t.Cleanup(func() { _ = l.Close() })
			return b
		}
	}
	t.Fatal("no block of ports is free")
	return 0
}

func TestMakeIsolateRemove(t *testing.T) {
	if reason := Lacks(); reason != "" {
		if os.Getenv("REHOP_REQUIRE_SERVICES") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	block := claimed(t)
	gone, n := network(t, block), network(t, block)
	t.Cleanup(func() {
		for _, n := range []Network{gone, n} {
			if err := n.Remove(); err != nil {
				t.Error(err)
			}
		}
	})
	left := func(n Network) []string {
		var all []string
		for _, pattern := range []string{"/sys/class/net/", "/run/netns/"} {
			found, _ := filepath.Glob(pattern + n.name() + "*")
			all = append(all, found...)
		}
		return all
	}
	// What has a directory that is gone without being removed makes room.
	if err := gone.Make(nodes); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once made it stays
		if err := n.Make(nodes); err != nil {
			t.Fatal(err)
		}
	}
	if got := left(gone); len(got) > 0 {
		t.Errorf("the network that had the same addresses has left %v", got)
	}
	if got := left(n); len(got) != 7 {
		t.Errorf("got %v, want a bridge, three links and three namespaces", got)
	}
	reached := func(node int) bool { // nobody listens there
		conn, err := net.Dial("tcp", n.Address(node)+":1")
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	up := func(node string) bool {
		state, err := os.ReadFile("/sys/class/net/" + n.Namespace(node) + "/flags")
		return err == nil && slices.Contains([]byte("13579bdf"), state[len(state)-2]) // IFF_UP is 1
	}
	if !reached(1) || !reached(3) || !up("a1") {
		t.Error("the machine has no way to a1 or a3")
	}
	if err := n.Isolate("a1"); err != nil || up("a1") || !up("a2") {
		t.Errorf("isolate a1: got %v, links up: a1 %v, a2 %v, want false, true", err, up("a1"), up("a2"))
	}
	if err := n.Make(nodes); err != nil || !up("a1") {
		t.Errorf("make again: got %v, link of a1 up: %v, want that it is", err, up("a1"))
	}
	if err := n.Remove(); err != nil || len(left(n)) > 0 {
		t.Errorf("remove: got %v, left %v, want nothing", err, left(n))
	}
}
