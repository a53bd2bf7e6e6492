package sqlbox

import (
	"sync/atomic"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

// stateful is a publisher whose state a case decides.
type stateful struct {
	outbox.Publisher
	state atomic.Value
}

func (s *stateful) State() rehop.State { return s.state.Load().(rehop.State) }
