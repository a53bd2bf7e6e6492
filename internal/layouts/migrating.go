package layouts

import (
	"strings"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Names of the queues and exchanges of migrations and sweeps. They have prefixes: with suffixes, two
// queues could get the same names.
const (
	migratingPrefix = "rehop.migrating."
	asidePrefix     = "rehop.aside."
	backPrefix      = "rehop.back."
	lettersPrefix   = "rehop.letters."
	pausePrefix     = "rehop.pause."
	lockPrefix      = "rehop.lock."
	carryPrefix     = "rehop.carry."
)

// MigratingQueue is the queue that keeps messages while their queue is migrated, and the exchange that
// leads either to the queue or to MigratingQueue.
func MigratingQueue(queue string) string { return prefixed(migratingPrefix, queue) }

// AsideExchange leads to MigratingQueue.
func AsideExchange(queue string) string { return prefixed(asidePrefix, queue) }

// LettersExchange leads dead letters to MigratingQueue, and all other messages to the exchange PauseQueue.
func LettersExchange(queue string) string { return prefixed(lettersPrefix, queue) }

// PauseQueue is a queue that refuses all messages, which exists only for moments, and the exchange that
// leads to it or, without it, to MigratingQueue.
func PauseQueue(queue string) string { return prefixed(pausePrefix, queue) }

// BackExchange leads to the queue.
func BackExchange(queue string) string { return prefixed(backPrefix, queue) }

// LockQueue is an exclusive queue that the process which works on the queue declares.
func LockQueue(queue string) string { return prefixed(lockPrefix, queue) }

// CarryExchange leads to a queue. Messages that come from another broker pass it with their own routing keys.
func CarryExchange(queue string) string { return prefixed(carryPrefix, queue) }

// IsPassing reports whether an exchange or a queue exists only while a command runs, or for a migration that is not finished.
func IsPassing(name string) bool {
	for _, prefix := range []string{migratingPrefix, asidePrefix, backPrefix, lettersPrefix, pausePrefix, lockPrefix, carryPrefix, "rehop.try."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// IsMigrating reports whether a queue is the MigratingQueue of a migration that is not finished.
func IsMigrating(queue string) bool { return strings.HasPrefix(queue, migratingPrefix) }

func prefixed(prefix, queue string) string {
	name, limit := prefix+queue, maxProbed
	if isASCII(name) {
		limit = maxName
	}
	return fitted(limit, name, name, "")
}

// Migrated is the queue whose messages a MigratingQueue keeps; it returns other names unchanged. For a name
// that was too long for MigratingQueue, it is the shortened name with a hash.
func Migrated(queue string) string { return strings.TrimPrefix(queue, migratingPrefix) }

// KeepArgs are the arguments of a queue that keeps messages without limit, however often they are read.
func KeepArgs(t layout.QueueType) topology.Args { return Native{Type: t}.keepArgs() }
