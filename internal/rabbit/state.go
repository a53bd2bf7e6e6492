package rabbit

// State is the state of a connection.
type State int

// The states of a connection.
const (
	Recovering State = iota // not connected, reconnecting
	Open                    // connected
	Blocked                 // connected, and the broker accepts no messages
	Closed                  // closed by Close
)

func (s State) String() string {
	return [...]string{"RECOVERING", "OPEN", "BLOCKED", "CLOSED"}[s]
}
