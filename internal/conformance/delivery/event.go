package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Kind is what happened in an event.
type Kind string

// The kinds of events, by who writes them.
const (
	// Publisher: one Attempt before each call of Publish, and then exactly one of the others.

	Attempt      Kind = "attempt"
	Confirmed    Kind = "confirmed"    // Publish returned nil
	Unroutable   Kind = "unroutable"   // ErrUnroutable
	Refused      Kind = "refused"      // ErrRefused
	Unknown      Kind = "unknown"      // ErrUnknown: it may be stored
	NotSent      Kind = "not-sent"     // ErrBlocked, ErrDisconnected and the like: it was never sent
	Unclassified Kind = "unclassified" // an error that is none of those that Publish promises

	// Consumer: Start when a handler begins, and Handled, Failed or Canceled when it returns.

	Start    Kind = "start"
	Handled  Kind = "handled"
	Failed   Kind = "failed"
	Canceled Kind = "canceled" // it was canceled, and has done nothing
	// Parked: the library reports that the message is now in the failed queue.
	Parked Kind = "parked"

	// Connections, from a client's hooks. Lost: one was lost. Blocked: the broker takes no messages.

	Lost      Kind = "lost"
	Blocked   Kind = "blocked"
	Connected Kind = "connected"
	// Receiving, Ceased: a subscription has begun or ceased to receive.
	Receiving Kind = "receiving"
	Ceased    Kind = "ceased"
	// Killed: the process of a consumer was killed, as its parent saw it end.
	Killed Kind = "killed"

	// FaultBegins, FaultEnds: whoever injects faults.
	FaultBegins Kind = "fault-begins"
	FaultEnds   Kind = "fault-ends"
	// Witnessed: who injects faults has seen by other means that one has struck.
	Witnessed Kind = "witnessed"

	// Cured: a queue that stood still was helped, as an operator would.
	Cured Kind = "cured"

	// Found: a message that was in a queue when all had settled. Drained: the waiting for that
	// succeeded; a history without it is of a run that never settled.
	Found   Kind = "found"
	Drained Kind = "drained"
	// Returned: a copy of a message as it came back to its queue.
	Returned Kind = "returned"
)

// Place is a kind of queue in which messages are found at the end.
type Place string

// The places.
const (
	InQueue    Place = "queue"    // a subscription's own
	InFailed   Place = "failed"   // its failed queue
	InWait     Place = "wait"     // a step or a level of the cascade
	InOrphans  Place = "orphans"  // messages whose queue is gone
	InUnrouted Place = "unrouted" // messages that no queue was bound for
	InSight    Place = "sight"    // copies of what returned, see Returned
)

// Event is one line of a history. What a field means depends on the kind; those that do not matter
// are zero.
type Event struct {
	At      int64         `json:"t"` // Unix nanoseconds
	Kind    Kind          `json:"kind"`
	ID      string        `json:"id,omitempty"`
	Queue   string        `json:"queue,omitempty"`
	Number  int           `json:"n,omitempty"`     // Start, Handled, Failed, Canceled: which attempt. Found, Returned: how many have failed
	Delay   time.Duration `json:"delay,omitempty"` // Failed: how long it is to wait
	Body    uint64        `json:"body,omitempty"`  // digest
	Meta    uint64        `json:"meta,omitempty"`  // digest of headers, properties and origin
	Client  string        `json:"client,omitempty"`
	Link    string        `json:"link,omitempty"`  // "publish" or "consume"
	Place   Place         `json:"place,omitempty"` // Found: in what kind of queue; Queue is the one that it belongs to
	Fault   string        `json:"fault,omitempty"`
	Again   bool          `json:"again,omitempty"` // Start: the message had been delivered before without an answer
	Flaw    string        `json:"flaw,omitempty"`  // Found, Returned: what a program without rehop would misread in it
	Comment string        `json:"comment,omitempty"`
}

// Recorder takes down events. It is safe for concurrent use.
type Recorder interface {
	Record(Event)
}

func digest(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// digestMeta is a digest of what must reach the handler as it was published.
func digestMeta(exchange, key, contentType, correlation, kind string, headers map[string]any) uint64 {
	type pair struct {
		Name  string
		Type  string
		Value any
	}
	pairs := make([]pair, 0, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		pairs = append(pairs, pair{name, fmt.Sprintf("%T", headers[name]), headers[name]})
	}
	text, err := json.Marshal([]any{exchange, key, contentType, correlation, kind, pairs})
	if err != nil {
		return 0 // a header that JSON cannot carry was not published by us, so this digest fits nothing
	}
	return digest(text)
}
