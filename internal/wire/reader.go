package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A quiet connection keeps a small buffer; one that fills it at one read gets a larger one.
const (
	quietBuffer = 4 << 10
	busyBuffer  = 64 << 10
)

// maxEmptyReads is how often a source may return neither bytes nor an error.
const maxEmptyReads = 100

// Reader reads frames without copying their payloads.
type Reader struct {
	source     io.Reader
	max        int
	buf        []byte
	start, end int   // buf[start:end] is read but not yet returned
	filled     bool  // the last read filled the buffer
	err        error // what the last read returned along with bytes
}

// NewReader reads frames of an agreed frame-max. As RabbitMQ it puts up with clients that forget the
// 8 bytes around a payload: a payload, not a frame, may be max bytes long. The buffer grows with the
// bytes that arrive, never by the size that a frame claims.
func NewReader(r io.Reader, max int) *Reader {
	reader := &Reader{source: r, buf: make([]byte, quietBuffer)}
	reader.SetMax(max)
	return reader
}

// SetMax changes the frame-max for frames not yet returned.
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

// Next returns the next frame. Its error is io.EOF between two frames, io.ErrUnexpectedEOF within one, a
// *FrameError for what is not a frame, and else what the connection returned; after a timeout Next can
// be called again.
func (r *Reader) Next() (Frame, error) {
	if err := r.fill(prefixSize); err != nil {
		return Frame{}, err
	}
	f, size := r.prefix()
	if size > int64(r.max) {
		return Frame{}, f.fault(fmt.Sprintf("{frame_too_large,%d,%d}", size, r.max-FrameOverhead))
	}
	if err := r.fill(int(size) + FrameOverhead); err != nil {
		return Frame{}, err
	}
	f.Payload = r.buf[r.start+prefixSize:][:size:size]
	end := r.buf[r.start+prefixSize+int(size)]
	r.start += int(size) + FrameOverhead
	if end != FrameEnd {
		return Frame{}, f.fault(fmt.Sprintf("{invalid_frame_end_marker,%d}", end))
	}
	if !f.wellFormed() {
		return Frame{}, f.fault("unknown_frame")
	}
	return f, nil
}

// Buffered is the number of bytes that were read but not yet returned.
func (r *Reader) Buffered() int { return r.end - r.start }

// Ready reports whether Next will return without reading from the connection.
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

// makeRoom moves what is buffered to the front and grows a buffer that arriving bytes have filled.
func (r *Reader) makeRoom() {
	waiting := r.buf[r.start:r.end]
	grow := len(waiting) == len(r.buf) || r.filled && len(r.buf) < busyBuffer
	if r.start == 0 && !grow {
		return // not to copy a large frame onto itself whenever a few more of its bytes arrive
	}
	if grow {
		r.buf = make([]byte, min(2*len(r.buf), max(busyBuffer, r.max+FrameOverhead)))
	}
	copy(r.buf, waiting)
	r.start, r.end = 0, len(waiting)
}
