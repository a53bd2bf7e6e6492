package queue

import "time"

// Type is the kind of a queue.
type Type string

// The types that this broker has.
const (
	Classic Type = "classic"
	Quorum  Type = "quorum"
)

// Overflow is what becomes of messages when a queue is full.
type Overflow string

// The ways of a full queue.
const (
	DropHead         Overflow = "drop-head"
	RejectPublish    Overflow = "reject-publish"
	RejectPublishDLX Overflow = "reject-publish-dlx"
)

// Settings is how a queue behaves, by its arguments and policies. Those may change while it runs.
type Settings struct {
	// TTL of each message; negative: for ever.
	TTL time.Duration
	// Expires deletes the queue when it was not used for so long; negative: never.
	Expires time.Duration
	// MaxLength and MaxBytes bound what is ready; negative: unbounded.
	MaxLength, MaxBytes int64
	Overflow            Overflow
	// DeadLetter is the exchange for dead letters; HasDeadLetter tells the default exchange from none.
	DeadLetter    string
	HasDeadLetter bool
	// DeadLetterKey replaces the routing keys of dead letters, if HasDeadLetterKey.
	DeadLetterKey    string
	HasDeadLetterKey bool
	// AtLeastOnce keeps dead letters of a quorum queue until some queue has them.
	AtLeastOnce bool
	// DeliveryLimit is how often a message may come back, in quorum queues; negative: for ever.
	DeliveryLimit int
	// ConsumerTimeout is how long a client may hold a delivery; negative: as long as the node says.
	ConsumerTimeout time.Duration
	// Retry delays what comes back to a quorum queue.
	Retry Retry
}

// Unlimited are the settings of a queue without arguments.
func Unlimited() Settings {
	return Settings{TTL: -1, Expires: -1, MaxLength: -1, MaxBytes: -1, Overflow: DropHead, DeliveryLimit: -1, ConsumerTimeout: -1}
}

// KeepsDeadLetters says whether a queue of a type keeps its dead letters until another has them.
func (s Settings) KeepsDeadLetters(t Type) bool {
	return t == Quorum && s.HasDeadLetter && s.AtLeastOnce
}
