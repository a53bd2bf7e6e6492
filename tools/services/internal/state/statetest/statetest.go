// Package statetest gives tests state directories.
package statetest

import (
	"path/filepath"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// Block is a block of ports for directories in which no server is started.
const Block ports.Block = 28600

// Dir is a state directory with a block of ports; 0 is none.
func Dir(t testing.TB, block ports.Block) state.Dir {
	t.Helper()
	dir, err := state.New(filepath.Join(t.TempDir(), "state"), "/some/checkout")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if block != 0 {
		if err := dir.KeepBlock(block); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
