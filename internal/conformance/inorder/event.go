package inorder

// Kind is what has happened.
type Kind string

// The kinds of events.
const (
	Confirmed   Kind = "confirmed" // the broker has the message
	Unknown     Kind = "unknown"   // the publisher does not know whether the broker has it, and publishes it again
	Up          Kind = "up"        // a process has begun a session with a queue
	Down        Kind = "down"      // a session of a process with a queue has ended
	Begin       Kind = "begin"     // a handler has begun
	End         Kind = "end"       // a handler has returned
	Skipped     Kind = "skipped"   // an operator gives up a message that halts its key
	FaultBegins Kind = "fault"     // a process, or all of them, may lose the broker from now on
	FaultEnds   Kind = "fault over"
	Killed      Kind = "killed"  // a process has died: what it was handling does not end
	Stopped     Kind = "stopped" // no more messages are published
	Found       Kind = "found"   // a message was in a queue at the end
)

// Place is in which of the queues of a partition a message was found.
type Place string

// The places.
const (
	InQueue  Place = "queue"
	InHeld   Place = "held queue"
	InFailed Place = "failed queue"
)

// Event is one line of a history. Fields that mean nothing for its kind are zero.
type Event struct {
	At      int64  `json:"t"` // Unix nanoseconds
	Kind    Kind   `json:"kind"`
	Process string `json:"process,omitempty"` // of a fault: "" are all
	Queue   string `json:"queue,omitempty"`   // the partition
	Key     string `json:"key,omitempty"`
	Number  int    `json:"n,omitempty"`    // of the message among those of its key; the first is 1
	Over    bool   `json:"over,omitempty"` // End: it was handled, or has failed for good
	Place   Place  `json:"place,omitempty"`
	Comment string `json:"comment,omitempty"`
}

// Recorder takes down events. It is safe for concurrent use.
type Recorder interface{ Record(Event) }

// message names a message.
type message struct {
	key    string
	number int
}

func (e Event) message() message { return message{e.Key, e.Number} }
