package layouts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/envelope"
)

// The exchanges and queues that all subscriptions share.
const (
	// ReturnExchange returns a message to the queue whose name is its routing key. It is a direct
	// exchange, so dots, # and * in names have no meaning.
	ReturnExchange = "rehop.return"
	// OrphansQueue (and the exchange of the same name) holds messages whose queue was deleted.
	OrphansQueue = "rehop.orphans"
	// UnroutedExchange is the alternate exchange of every exchange that rehop declares.
	UnroutedExchange = "rehop.unrouted"
	// ReportsExchange gets a copy of each message that goes to a failed queue, and the outcome of each that was replayed.
	ReportsExchange = "rehop.reports"
	// UnroutedQueue holds unroutable messages.
	UnroutedQueue = "rehop.unrouted"
	// StepExchange routes a message to the step that its HeaderStep names.
	StepExchange = "rehop.step"
	// LaterExchange routes a message that has passed the cascade to its destination.
	LaterExchange = "rehop.later"

	keepExchange    = "rehop.unrouted.keep"
	nowhereExchange = "rehop.nowhere"
	stepQueuePrefix = "rehop.step."
	levelPrefix     = "rehop.delay."
	laterPrefix     = "rehop.later."
)

// The headers that the broker routes by.
const (
	// HeaderReturn with the value true makes the broker return an unroutable message to its publisher,
	// instead of keeping it in UnroutedQueue.
	HeaderReturn = "rehop-return"
	// HeaderStep names the step in which a message waits.
	HeaderStep = "rehop-step"
	// HeaderTo is where a message goes after the cascade: ToQueue, or ToExchange(name).
	HeaderTo = envelope.To

	// SlotHeader and SecondSlotHeader are the slots of a message's order key, by which a queue with partitions is split.
	SlotHeader       = "order-slot"
	SecondSlotHeader = "order-slot-2"

	levelHeaderPrefix = "rehop-delay-"
)

// ToQueue is the value of HeaderTo for a message whose routing key is the name of its queue.
const ToQueue = envelope.ToQueue

// ToExchange is the value of HeaderTo for a message that goes to an exchange, with its own routing key.
func ToExchange(name string) string { return envelope.ToExchange(name) }

const (
	// maxName is the longest name in AMQP 0-9-1, in bytes.
	maxName = 255
	// maxProbed is the longest name, unless it is ASCII, of an object that may not exist when a client asks
	// for it. RabbitMQ 4.3 cuts the text of its error at 255 characters, and ends the connection if they
	// have more bytes than that. The text has about 40 bytes, the name and the virtual host's name.
	maxProbed = 100
)

// IsRecoveredQueue reports whether rehop broker repair has created a queue for messages whose queue was
// lost.
func IsRecoveredQueue(queue string) bool { return strings.HasPrefix(queue, "rehop.recovered.") }

const (
	failedSuffix  = ".failed"
	landingSuffix = ".landing"
	heldSuffix    = ".held"
)

// FailedQueue is the name of the native failed queue of a queue: queue + ".failed". A name too long for
// that keeps its beginning and gets a hash.
func FailedQueue(queue string) string { return suffixed(Partitioned(queue), failedSuffix) }

// LandingQueue is the queue through which messages return to a queue that can reject them.
func LandingQueue(queue string) string { return suffixed(queue, landingSuffix) }

// HeldQueue is the queue in which messages wait that are handled in order by key.
func HeldQueue(queue string) string { return suffixed(queue, heldSuffix) }

// IsHeldQueue reports whether name may be that of a held queue.
func IsHeldQueue(name string) bool { return strings.HasSuffix(name, heldSuffix) }

// Served returns the queue whose failed messages, or waiting ones, are in a queue if that has one of rehop's names for such queues. Either may not exist,
// and of a name that was too long the queue is not known.
func Served(name string) (queue string, ok bool) {
	for _, suffix := range []string{failedSuffix, landingSuffix, heldSuffix, homeSuffix} {
		if queue, ok = strings.CutSuffix(name, suffix); ok && queue != "" {
			return queue, true
		}
	}
	return "", false
}

// IsOwn reports whether name is that of an exchange or a queue that all subscriptions share. Users do not choose such names.
func IsOwn(name string) bool { return strings.HasPrefix(name, "rehop.") }

func suffixed(queue, suffix string) string { return fitted(maxName, queue+suffix, queue, suffix) }

// laterQueue is the queue through which delayed messages reach an exchange.
func laterQueue(exchange string) string {
	return fitted(maxName, laterPrefix+exchange, laterPrefix+exchange, "")
}

// fitted is name if it has at most limit bytes; otherwise the beginning of head, a hash, and tail.
func fitted(limit int, name, head, tail string) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(head))
	tail = "~" + hex.EncodeToString(sum[:8]) + tail
	head = head[:limit-len(tail)]
	for !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	return head + tail
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// StepName names a step by its delay, as in "10s", "1m40s" or "2h".
func StepName(delay time.Duration) string {
	s := delay.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// StepQueue is the name of the queue in which messages wait for exactly delay.
func StepQueue(delay time.Duration) string { return stepQueuePrefix + StepName(delay) }

// IsLandingQueue reports whether name may be that of a landing queue.
func IsLandingQueue(name string) bool {
	return strings.HasSuffix(name, landingSuffix) || strings.HasSuffix(name, homeSuffix)
}

// IsWaitQueue reports whether name is that of a step, of a level of the cascade, or of a way out of it.
func IsWaitQueue(name string) bool {
	return strings.HasPrefix(name, stepQueuePrefix) || strings.HasPrefix(name, levelPrefix) || strings.HasPrefix(name, laterPrefix)
}

func levelName(level int) string   { return fmt.Sprintf("%s%02d", levelPrefix, level) }
func levelHeader(level int) string { return fmt.Sprintf("%s%02d", levelHeaderPrefix, level) }
