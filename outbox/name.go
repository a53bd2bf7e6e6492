package outbox

import (
	"strings"
	"sync/atomic"

	"github.com/rehop/rehop"
)

// name is the unique name of a relay in the tables of relays and of leases.
type name struct {
	given   string
	current atomic.Pointer[string]
}

// maxName leaves room in the column, which has 64 bytes, for an id.
const maxName = 24

func newName(given string) *name {
	n := &name{given: strings.ToValidUTF8(given[:min(len(given), maxName)], "")}
	n.change()
	return n
}

func (n *name) get() string { return *n.current.Load() }

func (n *name) change() {
	name := n.given + " " + rehop.NewID()
	n.current.Store(&name)
}
