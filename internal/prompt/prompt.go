// Package prompt writes to connections without waiting, and polls them without sleeping: on an idle
// machine it takes longer to wake a goroutine or a processor than to write or read a little.
package prompt

import "time"

// Writer is a connection that can be written to without waiting.
type Writer interface {
	// TryWrite writes as much as there is room for. No other goroutine may write meanwhile.
	TryWrite(b []byte) (n int, err error)
}

// Reader is a connection that can be polled without sleeping.
type Reader interface {
	// ReadWithin reads what has arrived, or polls for it until the limit, which should be short. It
	// returns 0 and no error if nothing arrived. No other goroutine may read meanwhile; a deadline that
	// is set or a Close that is called meanwhile takes effect afterwards.
	ReadWithin(b []byte, limit time.Duration) (n int, err error)
}
