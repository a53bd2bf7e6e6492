// Package prompt writes to connections without waiting, and looks whether something comes without sleeping: on an idle machine it takes longer
// to wake a goroutine or a processor than to write or read a little.
package prompt

import "time"

// Writer is a connection to which one can write without waiting.
type Writer interface {
	// TryWrite writes as much as there is room for. Nobody else writes meanwhile.
	TryWrite(b []byte) (n int, err error)
}

// Reader is a connection at which one can look without sleeping.
type Reader interface {
	// ReadWithin reads what is there or comes within a time, which is to be short, and looks for it again and again until then. It returns 0 and no error if
	// nothing came. Nobody else reads meanwhile; a deadline that is set or a Close that is called during a look takes effect after it.
	ReadWithin(b []byte, limit time.Duration) (n int, err error)
}
