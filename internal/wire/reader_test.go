package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"testing"
	"testing/iotest"
)

var sample = []Frame{
	{FrameMethod, 0, []byte{0, 90, 0, 10}},
	{FrameHeader, 65535, headerPayload([]byte{0, 0}, 3)},
	{FrameBody, 1, []byte{FrameEnd, FrameEnd, FrameEnd}},
	{FrameBody, 1, []byte{}},
	{FrameHeartbeat, 0, []byte{}},
	{FrameBody, 2, bytes.Repeat([]byte("x"), 3*smallBuffer)},
	{FrameBody, 2, bytes.Repeat([]byte("y"), 2*largeBuffer)},
	{FrameBody, 2, []byte("z")},
}

func stream(frames ...Frame) []byte {
	var b []byte
	for _, f := range frames {
		b = AppendFrame(b, f.Type, f.Channel, f.Payload)
	}
	return b
}

// readAll returns copies of all frames, and the error after them.
func readAll(r *Reader) ([]Frame, error) {
	var frames []Frame
	for {
		f, err := r.Next()
		if err != nil {
			return frames, err
		}
		f.Payload = append([]byte{}, f.Payload...)
		frames = append(frames, f)
	}
}

func TestReader(t *testing.T) {
	for _, source := range []struct {
		name string
		of   func(io.Reader) io.Reader
	}{
		{"at once", func(r io.Reader) io.Reader { return r }},
		{"byte by byte", iotest.OneByteReader},
		{"half of what is asked for", iotest.HalfReader},
		{"error along with bytes", iotest.DataErrReader},
	} {
		t.Run(source.name, func(t *testing.T) {
			r := NewReader(source.of(bytes.NewReader(append([]byte(ProtocolHeader), stream(sample...)...))), 1<<20)
			if header, err := r.ProtocolHeader(); string(header[:]) != ProtocolHeader || err != nil {
				t.Errorf("protocol header: got %q, %v", header, err)
			}
			got, err := readAll(r)
			if err != io.EOF {
				t.Errorf("got error %v, want EOF", err)
			}
			if !reflect.DeepEqual(got, sample) {
				t.Errorf("got %d frames that differ from the %d written", len(got), len(sample))
			}
		})
	}
}

func TestReaderOfACutStream(t *testing.T) {
	whole := stream(sample[:3]...)
	boundary := map[int]bool{}
	for i := range 4 {
		boundary[len(stream(sample[:i]...))] = true
	}
	for n := range len(whole) {
		want := io.ErrUnexpectedEOF
		if boundary[n] {
			want = io.EOF
		}
		if _, err := readAll(NewReader(bytes.NewReader(whole[:n]), 4096)); err != want {
			t.Errorf("cut to %d bytes: got %v, want %v", n, err, want)
		}
	}
	for n, want := range map[int]error{0: io.EOF, 7: io.ErrUnexpectedEOF} {
		if _, err := NewReader(bytes.NewReader([]byte(ProtocolHeader)[:n]), 4096).ProtocolHeader(); err != want {
			t.Errorf("protocol header of %d bytes: got %v, want %v", n, err, want)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		stream string
		want   string
	}{
		{"too large", "\x01\x00\x01\x00\x00\x10\x01", "type 1, all octets = <<>>: {frame_too_large,4097,4088}"},
		{"largest number", "\x03\x00\x01\xff\xff\xff\xff", "type 3, all octets = <<>>: {frame_too_large,4294967295,4088}"},
		{"end", "\x03\x00\x01\x00\x00\x00\x01a\x00", "type 3, all octets = <<\"a\">>: {invalid_frame_end_marker,0}"},
		{"end of much", "\x03\x00\x01\x00\x00\x00\x1100000000000000000\x01", "type 3, first 16 octets = <<\"0000000000000000\">>: {invalid_frame_end_marker,1}"},
		{"type 0", "\x00\x00\x01\x00\x00\x00\x00\xce", "type 0, all octets = <<>>: unknown_frame"},
		{"type 255", "\xff\x00\x01\x00\x00\x00\x01\x07\xce", "type 255, all octets = <<7>>: unknown_frame"},
		{"cut method", "\x01\x00\x01\x00\x00\x00\x03\x00\x5a\x00\xce", "type 1, all octets = <<0,90,0>>: unknown_frame"},
		{"cut header", "\x02\x00\x01\x00\x00\x00\x02\x00\x3c\xce", "type 2, all octets = <<0,60>>: unknown_frame"},
		{"heartbeat with payload", "\x08\x00\x00\x00\x00\x00\x01\"\xce", "type 8, all octets = <<34>>: unknown_frame"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewReader(bytes.NewReader([]byte(test.stream)), FrameMinSize).Next()
			wantFault(t, err, FrameError{Code: FrameFault, Text: test.want})
		})
	}
}

func TestReaderTakesPayloadAsLongAsFrameMax(t *testing.T) {
	longest := stream(Frame{FrameBody, 1, make([]byte, FrameMinSize)})
	if f, err := NewReader(bytes.NewReader(longest), FrameMinSize).Next(); err != nil || len(f.Payload) != FrameMinSize {
		t.Errorf("got %d bytes, %v; want %d", len(f.Payload), err, FrameMinSize)
	}
	larger := stream(Frame{FrameBody, 1, make([]byte, FrameMinSize+1)})
	r := NewReader(bytes.NewReader(larger), FrameMinSize)
	r.SetMax(FrameMinSize + 1)
	if _, err := r.Next(); err != nil {
		t.Errorf("after SetMax: got %v, want nil", err)
	}
}

func TestReaderDoesNotTrustASize(t *testing.T) {
	const arrived = 100_000
	r := NewReader(bytes.NewReader(append([]byte{FrameBody, 0, 1, 0x7f, 0xff, 0, 0}, make([]byte, arrived)...)), 1<<31-1)
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if got := len(r.buf); got > 4*arrived {
		t.Errorf("got a buffer of %d bytes for %d that arrived", got, arrived)
	}
}

func TestReaderBufferStaysSmallOnAQuietConnection(t *testing.T) {
	one := stream(sample[0])
	quiet := NewReader(iotest.OneByteReader(bytes.NewReader(bytes.Repeat(one, 10_000))), 1<<17)
	busy := NewReader(bytes.NewReader(bytes.Repeat(one, 100_000)), 1<<17)
	for _, test := range []struct {
		name   string
		reader *Reader
		want   int
	}{{"quiet", quiet, smallBuffer}, {"busy", busy, largeBuffer}} {
		if _, err := readAll(test.reader); err != io.EOF {
			t.Errorf("%s: got %v, want EOF", test.name, err)
		}
		if got := len(test.reader.buf); got != test.want {
			t.Errorf("%s: got a buffer of %d bytes, want %d", test.name, got, test.want)
		}
	}
}

func TestReaderContinuesAfterATimeout(t *testing.T) {
	whole := stream(sample[2])
	r := NewReader(io.MultiReader(bytes.NewReader(whole[:5]), &failOnce{err: os.ErrDeadlineExceeded, then: bytes.NewReader(whole[5:])}), 4096)
	if _, err := r.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a timeout", err)
	}
	if f, err := r.Next(); err != nil || !bytes.Equal(f.Payload, sample[2].Payload) {
		t.Errorf("got %v, %v; want the frame", f, err)
	}
}

type failOnce struct {
	err  error
	then io.Reader
}

func (f *failOnce) Read(p []byte) (int, error) {
	if err := f.err; err != nil {
		f.err = nil
		return 0, err
	}
	return f.then.Read(p)
}

func TestReaderGivesUpOnASourceWithoutProgress(t *testing.T) {
	r := NewReader(idle{}, 4096)
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReady(t *testing.T) {
	whole := stream(sample[:2]...)
	first := len(stream(sample[0]))
	for n := first; n <= len(whole); n++ {
		r := NewReader(bytes.NewReader(whole[:n]), 4096)
		if r.Ready() || r.Buffered() != 0 {
			t.Fatalf("before the first read: got ready %v, %d buffered", r.Ready(), r.Buffered())
		}
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got, want := r.Ready(), n == len(whole); got != want {
			t.Errorf("with %d of %d bytes: got ready %v, want %v", n, len(whole), got, want)
		}
		if got, want := r.Buffered(), n-first; got != want {
			t.Errorf("buffered: got %d, want %d", got, want)
		}
	}
	r := NewReader(bytes.NewReader(append(stream(sample[0]), 1, 0, 0, 255, 255, 255, 255)), 4096)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if !r.Ready() {
		t.Error("before a frame that is too large: got not ready, want ready to refuse it")
	}
}

func TestAppendContent(t *testing.T) {
	props := []byte{0x10, 0, 2}
	for _, test := range []struct {
		body, frameMax int
		want           []int // sizes of the body's frames
	}{
		{0, 4096, nil},
		{1, 4096, []int{1}},
		{4088, 4096, []int{4088}},
		{4089, 4096, []int{4088, 1}},
		{3 * 4088, 4096, []int{4088, 4088, 4088}},
		{10_000, 0, []int{10_000}},
		{10_000, 8, []int{10_000}},
		{3, 9, []int{1, 1, 1}},
	} {
		t.Run(fmt.Sprintf("%d bytes by %d", test.body, test.frameMax), func(t *testing.T) {
			body := bytes.Repeat([]byte("0123456789"), test.body/10+1)[:test.body]
			frames, err := readAll(NewReader(bytes.NewReader(AppendContent(nil, 5, ClassBasic, props, body, test.frameMax)), 1<<20))
			if err != io.EOF || len(frames) == 0 {
				t.Fatalf("got %d frames, %v", len(frames), err)
			}
			if want := (Frame{FrameHeader, 5, headerPayload(props, uint64(test.body))}); !reflect.DeepEqual(frames[0], want) {
				t.Errorf("header: got %+v, want %+v", frames[0], want)
			}
			var sizes []int
			var got []byte
			for _, f := range frames[1:] {
				if f.Type != FrameBody || f.Channel != 5 {
					t.Errorf("got type %d on channel %d, want a body on 5", f.Type, f.Channel)
				}
				sizes = append(sizes, len(f.Payload))
				got = append(got, f.Payload...)
			}
			if !reflect.DeepEqual(sizes, test.want) || !bytes.Equal(got, body) {
				t.Errorf("got sizes %v and a body of %d bytes, want %v", sizes, len(got), test.want)
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	if got, want := AppendHeartbeat(nil), []byte{8, 0, 0, 0, 0, 0, 0, FrameEnd}; !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(stream(sample[:5]...))
	f.Add([]byte("\x01\x00\x00\x00\x00\x10\x01"))
	f.Add([]byte(ProtocolHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := NewReader(bytes.NewReader(b), FrameMinSize)
		frames, err := readAll(whole)
		slow, slowErr := readAll(NewReader(iotest.OneByteReader(bytes.NewReader(b)), FrameMinSize))
		if !reflect.DeepEqual(frames, slow) || !reflect.DeepEqual(err, slowErr) {
			t.Fatalf("at once: %d frames, %v; byte by byte: %d frames, %v", len(frames), err, len(slow), slowErr)
		}
		if written := stream(frames...); !bytes.HasPrefix(b, written) {
			t.Fatalf("got % x of % x", written, b)
		}
		if len(whole.buf) > largeBuffer {
			t.Fatalf("got a buffer of %d bytes, want at most %d", len(whole.buf), largeBuffer)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	publish := AppendMethod(nil, 1, &BasicPublish{Exchange: "orders", RoutingKey: "eu.paid"})
	publish = AppendContent(publish, 1, ClassBasic, []byte{0x10, 0, 2}, make([]byte, 256), 0)
	source := &endless{bytes.Repeat(publish, 1000), 0}
	r := NewReader(source, 131072)
	b.SetBytes(int64(len(publish)))
	b.ReportAllocs()
	for b.Loop() {
		for range 3 {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// endless repeats its bytes.
type endless struct {
	b   []byte
	off int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.b[e.off:])
	e.off = (e.off + n) % len(e.b)
	return n, nil
}
