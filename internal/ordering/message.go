package ordering

import "time"

// Place is where a message comes from or goes to.
type Place int

// The places.
const (
	Main   Place = iota // the queue that publishers send to
	Held                // the queue for what waits
	Failed              // the queue for what has failed for good
)

// Kind is what a message is.
type Kind int

// The kinds. All but the first two are written by owners, or by those who want to be owner.
const (
	Plain  Kind = iota // of a publisher, in the main queue
	Copy               // waits in the held queue
	Block              // in the held queue, for a message in the failed queue: what follows waits until that is replayed or skipped
	Replay             // in the held queue, from an operator: the message that a Block stands for, in its place
	Probe              // in the main queue: its arrival shows that the session is the active consumer
	Hello              // in the held queue: the session is active in the main queue
	Mark               // in the held queue: when it comes back, everything before it has been read. With an epoch it is a claim
	Bye                // in the held queue: the owner with this epoch has ended in an orderly way
	Calm               // in the held queue: the owner with this epoch has handled messages that its predecessors may have crashed with
	Trial              // in the held queue: the handler is about to run for a message that may crash it
	Skip               // in the held queue, from an operator: a message that blocks its key is to be given up
)

// Message is what an Owner knows of a message in one of the queues.
type Message struct {
	Kind        Kind
	ID          string // of the publisher; may be empty
	Print       string // a hash of the content: see Options.Print
	Key         string // by which it is ordered; "": with no other
	Replays     int    // how often it was replayed from the failed queue
	Attempt     int    // how often it has failed
	Due         time.Time
	Seq         uint64 // the place of a Copy or Block among those of its key
	Epoch       uint64 // of the owner that wrote it
	Session     string // that wrote it
	Number      uint64 // of a Mark
	Crashes     int    // of a claim: owners that have crashed before this one; of a Trial: its message's crashes
	Redelivered bool

	Data any // of the caller

	from  Place
	also  []*Message // further deliveries of the same message, that are acked with it
	done  bool       // it was acked as far as the Owner is concerned
	skip  bool       // it is to fail at once
	stays bool       // it is too large to be moved to the held queue
	room  bool       // it runs, and the held queue has room for it
}

// same reports whether a redelivered message of the main queue is the original of a message in the
// held queue. Without an id that is not known, since two messages may have the same content.
func (m *Message) same(held *Message) bool {
	return m.ID != "" && m.ID == held.ID && m.Print == held.Print && m.Replays <= held.Replays
}

// newer reports whether a message in the held queue replaces another one with the same number.
func (m *Message) newer(other *Message) bool {
	switch {
	case m.Replays != other.Replays:
		return m.Replays > other.Replays
	case m.Kind != other.Kind:
		return m.Kind == Block
	}
	return m.Attempt > other.Attempt
}

// replays reports whether a message of the main queue is the replay of the one that a Block stands for.
func (m *Message) replays(block *Message) bool {
	return m.ID != "" && m.ID == block.ID && m.Replays > block.Replays
}

// Copied reports whether a message on its way to another queue is to have the content of the message that it is
// published for.
func (m *Message) Copied() bool { return m.Kind == Plain || m.Kind == Copy || m.Kind == Replay }

// Do is what an Action does.
type Do int

// What an Owner wants done.
const (
	ConsumeHeld Do = iota // start to consume the held queue, on the same channel
	Publish               // publish a message; with a Move, call Published when it is confirmed
	Ack                   // ack a delivery
	Exchange              // two messages exchange their deliveries: that of a message whose handler runs, and that of its copy
	Close                 // close the channel, after everything else
)

// Action is what an Owner wants done. Publishes are carried out in their order, and so are acks.
type Action struct {
	Do     Do
	To     Place    // Publish
	Write  Message  // Publish: what is written into the message
	Of     *Message // Publish: the message whose content is copied; Ack: the delivery; Exchange: the message that runs
	With   *Message // Exchange: its copy
	Move   *Move    // Publish: not nil if it must not get lost
	Reason string   // Close
	Clean  bool     // Close: orderly, because of Stop or after the time for a session
}
