package broker_test

import (
	"runtime/debug"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
)

// A server without a MemoryLimit takes two fifths of what there is.
func TestDefaultMemoryLimit(t *testing.T) {
	const available = 100 << 20 // less than any machine has on which Go's tests run
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(available))
	n, err := access.Start(start(t, &broker.Server{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, limit := n.Memory(); limit != available/5*2 {
		t.Errorf("got a limit of %d, want %d", limit, available/5*2)
	}
}
