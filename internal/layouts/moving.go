package layouts

import (
	"strings"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Each has a prefix of its own: with suffixes, a queue that is called like another one with a suffix would
// get the same names.
const (
	movingPrefix = "rehop.moving."
	asidePrefix  = "rehop.aside."
	backPrefix   = "rehop.back."
	lockPrefix   = "rehop.lock."
)

// MovingQueue is the queue in which messages are kept while their queue is replaced by one with other
// arguments, and the exchange that leads either to the queue or there.
func MovingQueue(queue string) string { return prefixed(movingPrefix, queue) }

// AsideExchange leads to MovingQueue alone.
func AsideExchange(queue string) string { return prefixed(asidePrefix, queue) }

// BackExchange leads to the queue alone.
func BackExchange(queue string) string { return prefixed(backPrefix, queue) }

// LockQueue is held by who replaces the queue.
func LockQueue(queue string) string { return prefixed(lockPrefix, queue) }

func prefixed(prefix, queue string) string {
	name, limit := prefix+queue, maxProbed
	if isASCII(name) {
		limit = maxName
	}
	return fitted(limit, name, name, "")
}

// Moved is the queue whose messages a MovingQueue keeps; other names it returns as they are. Of a name that was too long for
// MovingQueue it is what is left, with a hash: who may know the name compares its MovingQueue instead.
func Moved(queue string) string { return strings.TrimPrefix(queue, movingPrefix) }

// Resting are the arguments of a queue that keeps messages for as long as it takes, however often they are looked at.
func KeepArgs(kind layout.QueueType) topology.Args { return Native{Type: kind}.keepArgs() }
