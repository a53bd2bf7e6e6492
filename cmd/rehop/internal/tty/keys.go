package tty

import (
	"context"
	"io"
	"os"
)

// Break is what a terminal in raw mode sends for ^C.
const Break = 3

// Keys returns the keys that the user types, until ctx ends. It sets the terminal to raw mode, which restore ends. Nil: in is not a
// terminal.
func Keys(ctx context.Context, in io.Reader) (keys <-chan byte, restore func() error) {
	nothing := func() error { return nil }
	file, is := in.(*os.File)
	if !is || !isTerminal(int(file.Fd())) {
		return nil, nothing
	}
	restore, err := makeRaw(int(file.Fd()))
	if err != nil {
		return nil, nothing
	}
	typed := make(chan byte)
	// A read from a terminal cannot be canceled: this goroutine ends with the next key, or with the process.
	go func() {
		var key [1]byte
		for {
			if _, err := io.ReadFull(file, key[:]); err != nil {
				return
			}
			select {
			case typed <- key[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return typed, restore
}

// SizeOf returns the size of the terminal that a stream is connected to. Nil: it is not a terminal.
func SizeOf(stream io.Writer) func() (width, height int) {
	file, is := stream.(*os.File)
	if !is || !isTerminal(int(file.Fd())) {
		return nil
	}
	return func() (int, int) {
		width, height, err := sizeOf(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}
}
