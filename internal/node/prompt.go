package node

// promptWriter is a connection to which one can write without waiting.
type promptWriter interface {
	// TryWrite writes as much as there is room for. Nobody else writes meanwhile.
	TryWrite(b []byte) (n int, err error)
}
