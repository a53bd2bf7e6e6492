package queue

import "time"

// Type is the type of a queue.
type Type string

const (
	Classic Type = "classic"
	Quorum  Type = "quorum"
)

// Overflow is what a full queue does.
type Overflow string

const (
	DropHead         Overflow = "drop-head"
	RejectPublish    Overflow = "reject-publish"
	RejectPublishDLX Overflow = "reject-publish-dlx"
)

// Settings is how a queue behaves, by its arguments and policies. Policies can change it at any time.
type Settings struct {
	// TTL of each message; negative: no limit.
	TTL time.Duration
	// Expires deletes the queue if it is not used for this long; negative: never.
	Expires time.Duration
	// MaxLength and MaxBytes limit the ready messages; negative: no limit.
	MaxLength, MaxBytes int64
	Overflow            Overflow
	// DeadLetter is the dead-letter exchange, if HasDeadLetter is set.
	DeadLetter    string
	HasDeadLetter bool
	// DeadLetterKey replaces the routing keys of dead letters, if HasDeadLetterKey is set.
	DeadLetterKey    string
	HasDeadLetterKey bool
	// AtLeastOnce keeps dead letters of a quorum queue until another queue has them.
	AtLeastOnce bool
	// DeliveryLimit is how often a message may be returned to a quorum queue; negative: no limit.
	DeliveryLimit int
	// ConsumerTimeout is how long a delivery may stay unacked; negative: the default of the node.
	ConsumerTimeout time.Duration
	// Retry delays messages that are returned to a quorum queue.
	Retry Retry
}

// Unlimited returns the settings of a queue without arguments.
func Unlimited() Settings {
	return Settings{TTL: -1, Expires: -1, MaxLength: -1, MaxBytes: -1, Overflow: DropHead, DeliveryLimit: -1, ConsumerTimeout: -1}
}

// KeepsDeadLetters reports whether a queue of a type keeps its dead letters until another has them.
func (s Settings) KeepsDeadLetters(t Type) bool {
	return t == Quorum && s.HasDeadLetter && s.AtLeastOnce
}
