package rabbit

// State is the state of a connection.
type State int

// The states of a connection.
const (
	Recovering State = iota // not connected, trying
	Open                    // connected
	Blocked                 // connected, and the broker does not take messages
	Closed                  // closed for good
)

func (s State) String() string {
	return [...]string{"RECOVERING", "OPEN", "BLOCKED", "CLOSED"}[s]
}
