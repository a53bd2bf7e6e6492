package node

import "fmt"

// Compat is the release of RabbitMQ whose rules hold where releases differ:
//
//   - An x-death header that a client sends counts as deaths of the message, until 4.0.
//   - Dead letters have x-last-death-* headers, from 3.13 on.
//   - A policy can be for queues of one type, from 3.13 on, and for mirrors, until 4.0.
//   - A quorum queue has a delivery limit of 20 and -1 means none, from 4.0 on; before, none is the default and -1 is the same as 0.
//   - The lower of argument and policy decides when a quorum queue expires, from 4.0 on; before, the policy does.
//   - basic.nack does not count as a failed delivery, from 4.3 on; basic.reject and a lost consumer do.
//   - basic.qos with global set is taken as if it were not, from 4.3 on.
//   - A client that cannot agree on limits is told so, from 4.0 on.
//   - Queues that are neither durable nor exclusive, x-queue-mode, and x-queue-version 1 are refused, from 4.3 on.
type Compat int

// The releases that changed a rule.
const (
	RabbitMQ310 Compat = iota
	RabbitMQ313
	RabbitMQ40
	RabbitMQ43
)

var releases = [...]string{RabbitMQ310: "3.10", RabbitMQ313: "3.13", RabbitMQ40: "4.0", RabbitMQ43: "4.3"}

func (c Compat) String() string {
	if c < 0 || int(c) >= len(releases) {
		return fmt.Sprintf("Compat(%d)", int(c))
	}
	return releases[c]
}

// Release returns the whole number of a release, for clients that look at it.
func (c Compat) Release() string {
	return [...]string{RabbitMQ310: "3.10.8", RabbitMQ313: "3.13.7", RabbitMQ40: "4.0.9", RabbitMQ43: "4.3.5"}[c]
}

func (c Compat) readsForeignDeaths() bool     { return c < RabbitMQ40 }
func (c Compat) explainsTuning() bool         { return c >= RabbitMQ40 }
func (c Compat) notesLastDeath() bool         { return c >= RabbitMQ313 }
func (c Compat) policiesByQueueType() bool    { return c >= RabbitMQ313 }
func (c Compat) hasMirrors() bool             { return c < RabbitMQ40 }
func (c Compat) quorumExpiresByPolicy() bool  { return c < RabbitMQ40 }
func (c Compat) nackCounts() bool             { return c < RabbitMQ43 }
func (c Compat) ignoresGlobalQos() bool       { return c >= RabbitMQ43 }
func (c Compat) refusesTransientQueues() bool { return c >= RabbitMQ43 }
func (c Compat) refusesQueueModes() bool      { return c >= RabbitMQ43 }

// negativeIsUnlimited is about delivery limits.
func (c Compat) negativeIsUnlimited() bool { return c >= RabbitMQ40 }

// deliveryLimit is that of a quorum queue which has none of its own; negative: none.
func (c Compat) deliveryLimit() int64 {
	if c >= RabbitMQ40 {
		return 20
	}
	return -1
}
