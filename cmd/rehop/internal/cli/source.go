package cli

import (
	"context"
	"io"
	"os"
)

// openSource opens a file, or the standard input for "" and -. Reads end when ctx does. The size is 0 if it is not known.
func (c *command) openSource(ctx context.Context, file string) (io.ReadCloser, int64, error) {
	if file == "" || file == "-" {
		return untilDone(ctx, func() (io.Reader, error) { return c.In, nil }), 0, nil
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular(): // opening a pipe can block, too
		return untilDone(ctx, func() (io.Reader, error) { return os.Open(file) }), 0, nil
	}
	f, err := os.Open(file)
	return f, info.Size(), err
}

// untilDone reads until ctx ends. A read from a pipe or a terminal cannot be canceled: it ends with the process.
func untilDone(ctx context.Context, open func() (io.Reader, error)) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		from, err := open()
		if err == nil {
			_, err = io.Copy(in, from)
		}
		in.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return &interruptible{out, stop}
}

type interruptible struct {
	*io.PipeReader
	forget func() bool
}

func (i *interruptible) Close() error {
	i.forget()
	return i.PipeReader.Close()
}
