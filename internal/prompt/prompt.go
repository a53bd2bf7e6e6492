// Package prompt writes to connections without waiting: who has a little to say would rather say it itself than wake a goroutine that may
// wait, because on an idle machine that takes longer than the writing.
package prompt

// Writer is a connection to which one can write without waiting.
type Writer interface {
	// TryWrite writes as much as there is room for. Nobody else writes meanwhile.
	TryWrite(b []byte) (n int, err error)
}
