package node

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// Compat is a release of RabbitMQ whose rules apply where releases differ. The rules are listed at broker.Compat.
type Compat int

// The releases that changed a rule.
const (
	RabbitMQ310 Compat = iota + 1
	RabbitMQ313
	RabbitMQ40
	RabbitMQ43
)

var releases = [...]string{RabbitMQ310: "3.10", RabbitMQ313: "3.13", RabbitMQ40: "4.0", RabbitMQ43: "4.3"}

func (c Compat) String() string {
	if !c.Known() {
		return fmt.Sprintf("Compat(%d)", int(c))
	}
	return releases[c]
}

// Known reports whether there is such a release.
func (c Compat) Known() bool { return c >= RabbitMQ310 && int(c) < len(releases) }

// ParseCompat parses the name of a release, such as 4.3.
func ParseCompat(name string) (Compat, error) {
	if i := slices.Index(releases[:], name); i >= int(RabbitMQ310) {
		return Compat(i), nil
	}
	return 0, fmt.Errorf("unknown RabbitMQ release %q; use one of %s", name, strings.Join(releases[RabbitMQ310:], ", "))
}

// Release returns the full version of a release, which clients see.
func (c Compat) Release() string {
	return [...]string{RabbitMQ310: "3.10.8", RabbitMQ313: "3.13.7", RabbitMQ40: "4.0.5", RabbitMQ43: "4.3.6"}[c]
}

func (c Compat) trustsClientDeaths() bool        { return c < RabbitMQ40 }
func (c Compat) reversesDeaths() bool            { return c < RabbitMQ313 }
func (c Compat) addsLastDeath() bool             { return c >= RabbitMQ313 }
func (c Compat) sortsDeaths() bool               { return c < RabbitMQ40 }
func (c Compat) dropsCC() bool                   { return c < RabbitMQ40 }
func (c Compat) policiesByQueueType() bool       { return c >= RabbitMQ313 }
func (c Compat) queuesHaveConsumerTimeout() bool { return c >= RabbitMQ313 }
func (c Compat) QueuesTimeOut() bool             { return c >= RabbitMQ43 }
func (c Compat) delaysRetries() bool             { return c >= RabbitMQ43 }
func (c Compat) hasMirrors() bool                { return c < RabbitMQ40 }
func (c Compat) quorumExpiresByPolicy() bool     { return c < RabbitMQ40 }
func (c Compat) IgnoresGlobalQos() bool          { return c >= RabbitMQ43 }
func (c Compat) refusesTransientQueues() bool    { return c >= RabbitMQ43 }
func (c Compat) refusesMasterLocator() bool      { return c >= RabbitMQ43 }
func (c Compat) refusesOldStorage() bool         { return c >= RabbitMQ43 }
func (c Compat) LimitBeforeArguments() bool      { return c < RabbitMQ40 }
func (c Compat) ChecksDeliveryMode() bool        { return c < RabbitMQ40 }
func (c Compat) passiveNeedsPermission() bool    { return c >= RabbitMQ43 }
func (c Compat) RepliesAreRouted() bool          { return c >= RabbitMQ43 }

// Normalizes reports whether headers arrive in the order of their names, without duplicates.
func (c Compat) Normalizes() bool { return c >= RabbitMQ40 }

// negativeIsUnlimited is for delivery limits.
func (c Compat) negativeIsUnlimited() bool { return c >= RabbitMQ40 }

// deliveryLimit is that of a quorum queue without one of its own; negative: no limit.
func (c Compat) deliveryLimit() int64 {
	if c >= RabbitMQ40 {
		return 20
	}
	return -1
}

// access is how a refusal names a right.
func (c Compat) access(r Right) string {
	if c < RabbitMQ40 {
		return "access"
	}
	return r.String() + " access"
}

// unknownKind is the reply code for an unknown exchange type.
func (c Compat) unknownKind() uint16 {
	if c < RabbitMQ40 {
		return wire.CommandInvalid
	}
	return wire.PreconditionFailed
}

// ReplyText is the text by which a client receives an exception. From 4.0 on it may be longer than a client can receive.
func (c Compat) ReplyText(x *Exception) (text string, fits bool) {
	if c < RabbitMQ40 {
		return wire.ReplyText(x.Code, x.Text), true
	}
	return wire.ReplyTextByCharacters(x.Code, x.Text)
}

// ChannelLimit is the reply text if a user has too many channels.
func (c Compat) ChannelLimit() string {
	const text = "number of channels opened for user '%s' has reached the maximum allowed user limit of "
	if c < RabbitMQ43 {
		return text + "(%d)"
	}
	return text + "%d"
}

// ProtocolAnswer is the answer to a protocol header that is not one of AMQP 0-9-1.
func (c Compat) ProtocolAnswer(header [8]byte) string {
	const sasl = "AMQP\x03\x01\x00\x00"
	isAMQP := string(header[:4]) == "AMQP"
	if c < RabbitMQ40 || isAMQP && header[4] == 0 && header[5] == 0 {
		return wire.ProtocolHeader
	}
	return sasl
}

// SmallestFrame is the lowest frame-max that a client may choose. It applies until the client has chosen.
func (c Compat) SmallestFrame() int {
	if c < RabbitMQ43 {
		return wire.FrameMinSize
	}
	return 2 * wire.FrameMinSize
}

// Bindings returns an empty table of bindings for an exchange.
func (c Compat) Bindings(kind exchange.Kind) *exchange.Table[Destination] {
	if c < RabbitMQ40 {
		return exchange.New[Destination](kind)
	}
	return exchange.NewExact[Destination](kind)
}

// maxHashes is how many # the key of a binding to a topic exchange may have, from 4.3 on.
const maxHashes = 2

// CheckKey refuses the key of a new binding.
func (c Compat) CheckKey(kind exchange.Kind, key string) error {
	if kind != exchange.Topic || c < RabbitMQ43 {
		return nil
	}
	hashes := 0
	for word := range strings.SplitSeq(key, ".") {
		if word == "#" {
			hashes++
		}
	}
	if hashes > maxHashes {
		return Refuse(wire.PreconditionFailed, "Topic binding key '%s' uses %d '#' wildcards, at most %d are allowed", key, hashes, maxHashes)
	}
	return nil
}

// checked returns the arguments of a queue that are checked.
func (c Compat) checked(args wire.Table) wire.Table {
	if c < RabbitMQ43 || queueType(args) != queue.Classic {
		return args
	}
	return args.Without("x-queue-mode")
}

// withType returns the arguments of a queue with its type, as they are compared and shown from 4.0 on.
func (c Compat) withType(args wire.Table) wire.Table {
	if _, ok := args.Get("x-queue-type"); ok || c < RabbitMQ40 {
		return args
	}
	return append(slices.Clip(args), wire.Field{Key: "x-queue-type", Value: string(queue.Classic)})
}

// QuorumInGet is how the refusal of basic.get names quorum queues.
func (c Compat) QuorumInGet() string {
	if c < RabbitMQ43 {
		return "quorum"
	}
	return `<<"quorum">>`
}

// fails reports whether an answer counts as a failed delivery. A lost consumer always does.
func (c Compat) fails(a Answer) bool {
	switch a {
	case Rejected, Lost:
		return true
	case Nacked:
		return c < RabbitMQ43
	case RejectedBack:
		return c >= RabbitMQ43
	}
	return false
}

func (c Compat) queueRules(t queue.Type) queue.Rules {
	switch {
	case t == queue.Classic:
		return queue.Rules{CountsFailures: c >= RabbitMQ43, ShowsFailures: c >= RabbitMQ43, RestsAfterCancel: c < RabbitMQ40}
	case c >= RabbitMQ43:
		return queue.Rules{Priorities: queue.Strict, CountsFailures: true, ShowsFailures: true, LimitsFailures: true, ReturnsFirst: true, WeighsProperties: true, RanksConsumers: true}
	case c >= RabbitMQ40:
		return queue.Rules{Priorities: queue.TwoLevels, CountsFailures: true, ShowsFailures: true, RanksConsumers: true}
	}
	return queue.Rules{}
}

// logged is the count that the log keeps of a returned item. It is never 0, so that the item is marked as redelivered
// after a restart. It includes what counts for the delivery limit, which are failures from 4.3 on.
func (c Compat) logged(it queue.Item, failed bool) int {
	if c < RabbitMQ43 {
		return int(it.Count) + 1
	}
	n := int(it.Failures) + 1
	if failed {
		n++
	}
	return n
}

// restored is the opposite of logged.
func (c Compat) restored(logged int) queue.Returns {
	if c < RabbitMQ43 || logged == 0 {
		return queue.Returns{Count: uint32(logged)}
	}
	failures := min(logged-1, math.MaxUint16)
	return queue.Returns{Count: uint32(max(failures, 1)), Failures: uint16(failures)}
}

// noteReturns adds the headers that a quorum queue sets on a returned item.
func (c Compat) noteReturns(headers wire.Table, it queue.Item) wire.Table {
	returns := int64(it.Count)
	if returns == 0 {
		returns = int64(it.Failures) // they are from another queue
	}
	if c < RabbitMQ43 {
		return withHeader(headers, "x-delivery-count", returns)
	}
	if it.Failures > 0 {
		headers = headers.With("x-delivery-count", int64(it.Failures))
	}
	return withHeader(headers, "x-acquired-count", returns)
}

// CountsGets reports whether basic.get from a quorum queue always adds x-delivery-count, even if it is 0.
func (c Compat) CountsGets() bool { return c < RabbitMQ40 }
