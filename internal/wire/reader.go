package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A connection begins with a small buffer. If one read fills it, the connection gets a larger one.
const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
)

// maxEmptyReads is how many times in a row a source may return neither bytes nor an error.
const maxEmptyReads = 100

// Reader reads frames without copying their payloads.
type Reader struct {
	source     io.Reader
	max        int
	buf        []byte
	start, end int   // buf[start:end] was read and not yet returned
	filled     bool  // the last read filled the buffer
	err        error // returned by the last read, together with bytes
}

// NewReader returns a reader for the negotiated frame-max. Like RabbitMQ, it accepts clients that
// forget the 8 bytes around a payload: a payload, not a frame, may have max bytes. The buffer grows with
// the bytes that arrive, never by the size that a frame announces.
func NewReader(r io.Reader, max int) *Reader {
	reader := &Reader{source: r, buf: make([]byte, smallBuffer)}
	reader.SetMax(max)
	return reader
}

// SetMax changes the frame-max for the frames that were not yet returned.
func (r *Reader) SetMax(max int) { r.max = min(max, math.MaxInt32-FrameOverhead) }

// ProtocolHeader reads the eight bytes that a client sends before its first frame.
func (r *Reader) ProtocolHeader() ([8]byte, error) {
	var header [8]byte
	if err := r.fill(len(header)); err != nil {
		return header, err
	}
	r.start += copy(header[:], r.buf[r.start:])
	return header, nil
}

// Next returns the next frame. The error is io.EOF between two frames, io.ErrUnexpectedEOF within a
// frame, a *FrameError for what is not a frame, or the error of the connection. After a timeout, Next
// can be called again.
func (r *Reader) Next() (Frame, error) {
	if err := r.fill(prefixSize); err != nil {
		return Frame{}, err
	}
	f, size := r.prefix()
	if size > int64(r.max) {
		return Frame{}, f.malformed(fmt.Sprintf("{frame_too_large,%d,%d}", size, r.max-FrameOverhead))
	}
	if err := r.fill(int(size) + FrameOverhead); err != nil {
		return Frame{}, err
	}
	f.Payload = r.buf[r.start+prefixSize:][:size:size]
	end := r.buf[r.start+prefixSize+int(size)]
	r.start += int(size) + FrameOverhead
	if end != FrameEnd {
		return Frame{}, f.malformed(fmt.Sprintf("{invalid_frame_end_marker,%d}", end))
	}
	if !f.wellFormed() {
		return Frame{}, f.malformed("unknown_frame")
	}
	return f, nil
}

// Buffered returns the number of bytes that were read and not yet returned.
func (r *Reader) Buffered() int { return r.end - r.start }

// Ready reports whether Next can return without reading from the connection.
func (r *Reader) Ready() bool {
	if r.Buffered() < prefixSize {
		return false
	}
	_, size := r.prefix()
	return size > int64(r.max) || int64(r.Buffered()) >= size+FrameOverhead
}

// prefix reads the buffered beginning of a frame.
func (r *Reader) prefix() (f Frame, size int64) {
	b := r.buf[r.start:]
	f = Frame{Type: b[0], Channel: binary.BigEndian.Uint16(b[1:])}
	return f, int64(binary.BigEndian.Uint32(b[3:]))
}

// fill reads until n bytes are buffered.
func (r *Reader) fill(n int) error {
	for empty := 0; r.Buffered() < n; {
		if err := r.err; err != nil {
			r.err = nil
			if errors.Is(err, io.EOF) && r.Buffered() > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		r.makeRoom()
		got, err := r.source.Read(r.buf[r.end:])
		r.end += got
		r.filled = r.end == len(r.buf)
		r.err = err
		if got > 0 || err != nil {
			empty = 0
		} else if empty++; empty == maxEmptyReads {
			return io.ErrNoProgress
		}
	}
	return nil
}

// makeRoom moves the buffered bytes to the front. It grows the buffer if arriving bytes have filled it.
func (r *Reader) makeRoom() {
	buffered := r.buf[r.start:r.end]
	grow := len(buffered) == len(r.buf) || r.filled && len(r.buf) < largeBuffer
	if r.start == 0 && !grow {
		return // avoids copying a large frame onto itself whenever a few more of its bytes arrive
	}
	if grow {
		r.buf = make([]byte, min(2*len(r.buf), max(largeBuffer, r.max+FrameOverhead)))
	}
	copy(r.buf, buffered)
	r.start, r.end = 0, len(buffered)
}
