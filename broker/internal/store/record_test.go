package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

func TestMessageIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(Message{}); got > 80 {
		t.Errorf("got a Message of %d bytes, want at most 80", got)
	}
}

// Holders are a set.
func TestHolders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var m Message
	want := make(map[QueueID]uint32)
	for step := range 20_000 {
		q := QueueID(1 + rng.IntN(8))
		_, held := want[q]
		switch n := rng.IntN(10); {
		case n < 4 && !held:
			m.hold(holder{queue: q})
			want[q] = 0
		case n < 6:
			m.setDeliveries(q, uint32(step))
			if held {
				want[q] = uint32(step)
			}
		case n < 7:
			m.releaseIf(func(other QueueID) bool { return other == q || other == q+1 })
			delete(want, q)
			delete(want, q+1)
		default:
			if got := m.release(q); got != held {
				t.Fatalf("step %d: got release %v, want %v", step, got, held)
			}
			delete(want, q)
		}
		got := make(map[QueueID]uint32)
		for h := range m.holders {
			got[h.queue] = h.deliveries
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || m.holderCount() != len(want) {
			t.Fatalf("step %d: got %d holders %v, want %v", step, m.holderCount(), got, want)
		}
	}
}

func TestOperationsRoundTrip(t *testing.T) {
	big := Message{size: math.MaxUint32, crc: 7, enqueued: math.MinInt64, ttl: math.MaxUint32, flags: flagExpires | flagPersistent, priority: 255}
	for q := range QueueID(1000) {
		big.hold(holder{math.MaxUint64 - q, math.MaxUint32})
	}
	copied := big
	copied.seq = math.MaxUint64
	plain := Message{size: 6}
	plain.hold(holder{1, 0})
	var b []byte
	b = appendMessage(b, &big, 1, 2)
	b = appendMessage(b, &copied, 3, math.MaxInt32)
	b = appendMessage(b, &plain, 0, 0)
	b = appendChange(b, math.MaxUint64, &change{kind: opSettle, queue: 5})
	b = appendChange(b, 1, &change{kind: opCount, queue: 2, deliveries: math.MaxUint32})
	b = appendChange(b, 3, &change{kind: opDie, queue: 4, death: 5, copied: []QueueID{6, math.MaxUint64}})
	b = appendChange(b, 7, &change{kind: opDelay, queue: 8, until: math.MaxInt64})
	b = appendDiscard(b, 9)
	b = append(b, byte(opSynced), byte(opClosed))
	b = appendPut(b, "key", []byte("value"))
	b = appendPut(b, "", nil)
	b = appendDelete(b, "key")

	var kinds []operationKind
	d := decoder{rest: b}
	var op operation
	for d.next(&op) {
		kinds = append(kinds, op.kind)
		switch op.kind {
		case opPublish, opCopy:
			want := &big
			if op.message.size == 6 {
				want = &plain
			}
			if op.message.meta != want.Meta() || op.message.crc != want.crc || op.message.holderCount != want.holderCount() {
				t.Errorf("got %+v, want %+v", op.message.meta, want.Meta())
			}
			for h := range want.holders {
				if got := op.message.nextHolder(); got != h {
					t.Errorf("got holder %v, want %v", got, h)
				}
			}
		case opSettle:
			if op.seq != math.MaxUint64 || op.queue != 5 {
				t.Errorf("got settled %d by %d", op.seq, op.queue)
			}
		case opCount:
			if op.seq != 1 || op.queue != 2 || op.deliveries != math.MaxUint32 {
				t.Errorf("got count %d of %d by %d", op.deliveries, op.seq, op.queue)
			}
		case opDie:
			if op.seq != 3 || op.queue != 4 || op.death != 5 || !slices.Equal(op.copied, []QueueID{6, math.MaxUint64}) {
				t.Errorf("got death %d of %d in %d, copied to %d", op.death, op.seq, op.queue, op.copied)
			}
		case opDelay:
			if op.seq != 7 || op.queue != 8 || op.until != math.MaxInt64 {
				t.Errorf("got delay of %d in %d until %d", op.seq, op.queue, op.until)
			}
		}
	}
	want := []operationKind{opPublish, opCopy, opPublish, opSettle, opCount, opDie, opDelay, opDiscard, opSynced, opClosed, opPut, opPut, opDelete}
	if d.bad || fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("got %v, bad %v; want %v", kinds, d.bad, want)
	}
	for size := range b[:200] {
		d := decoder{rest: b[:size]}
		for d.next(&op) {
		}
		if size > 0 && !d.bad {
			t.Fatalf("cut off at %d of the first operation: got it accepted, want it refused", size)
		}
	}
}

func FuzzOperations(f *testing.F) {
	m := Message{size: 6, flags: flagExpires}
	m.hold(holder{1, 2})
	m.hold(holder{3, 4})
	f.Add(appendMessage(nil, &m, 1, 2))
	f.Add(appendChange(appendChange(nil, 1, &change{kind: opSettle, queue: 2}), 3, &change{kind: opCount, queue: 4, deliveries: 5}))
	f.Add(appendChange(appendChange(nil, 1, &change{kind: opDie, queue: 2, death: 3, copied: []QueueID{4, 5}}), 1, &change{kind: opDelay, queue: 2, until: 3}))
	f.Add(appendDelete(appendPut(appendDiscard(nil, 1), "k", []byte("v")), "k"))
	f.Add([]byte{byte(opPublish), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{rest: b}
		var op operation
		for d.next(&op) {
			if len(op.key)+len(op.value)+op.message.holderCount > len(b) {
				t.Fatalf("got more than the %d bytes there are: %+v", len(b), op)
			}
			for op.message.holderCount > 0 {
				if h := op.message.nextHolder(); h.queue == 0 {
					t.Fatal("got a holder without queue")
				}
			}
		}
	})
}

func FuzzContent(f *testing.F) {
	f.Add(appendContent(nil, Content{Exchange: "e", Key: "k", Properties: []byte{1}, Body: []byte{2}}))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := decodeContent(b)
		if ok && !bytes.Equal(appendContent(nil, c), b) {
			t.Fatalf("got %+v from %v, which is stored as %v", c, b, appendContent(nil, c))
		}
	})
}

// FuzzScan reads arbitrary bytes as records. With seal they get correct checksums first, to test the code
// after the comparison of checksums.
func FuzzScan(f *testing.F) {
	m := Message{size: 7, crc: checksum([]byte("content"))}
	m.hold(holder{1, 2})
	operations := appendMessage(nil, &m, 0, 1)
	h := recordHeader{operations: uint32(len(operations)), contents: 7, seq: 1}
	f.Add(append(append(h.appendTo(nil), operations...), "content"...), true)
	f.Add(recordHeader{operations: 1}.appendTo(nil), true)
	f.Add(bytes.Repeat([]byte{0}, 100), false)
	f.Add(bytes.Repeat([]byte{255}, 100), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		const salt = 99
		if seal {
			sealAll(b, salt)
		}
		g := newSegment("fuzz", header{Salt: salt})
		g.file = memory(b)
		g.end = int64(len(b))
		l := &messageIndex{segments: []*segment{g}}
		r := &logReader{index: l, replay: newReplay(l, nil, func(Found) *Message { return new(Message) }), salvage: true}
		if err := r.scanSegment(g, 0); err != nil {
			t.Fatal(err)
		}
		live := 0
		for m := g.first; m != nil; m = m.next {
			live++
			if int64(m.offset)+int64(m.size) > int64(len(b)) || m.holderCount() == 0 {
				t.Fatalf("got a message at %d of %d bytes with %d holders in %d bytes", m.offset, m.size, m.holderCount(), len(b))
			}
			if _, err := readContent(g.name, g.file, int64(m.offset), m.size, m.crc); err != nil {
				t.Fatal(err)
			}
		}
		byNumber := len(r.replay.messages.others)
		for _, m := range r.replay.messages.consecutive {
			if m != nil {
				byNumber++
			}
		}
		if live != l.messages || byNumber != live {
			t.Fatalf("got %d messages in the list, %d in the index, %d by number", live, l.messages, byNumber)
		}
	})
}

// sealAll sets the checksums of all records that fit.
func sealAll(b []byte, salt uint64) {
	var s hasher
	for at := 0; at+recordHeaderSize <= len(b); {
		h := decodeRecordHeader(b[at:])
		if h.size() > int64(len(b)-at) {
			return
		}
		operations := b[at+recordHeaderSize:][:h.operations]
		binary.LittleEndian.PutUint32(b[at:], s.sum(h, checksum(operations), place{salt, int64(at)}))
		at += int(h.size())
	}
}

// memory is a read-only file.
type memory []byte

func (m memory) ReadAt(b []byte, offset int64) (int, error) {
	return bytes.NewReader(m).ReadAt(b, offset)
}
func (m memory) WriteAt([]byte, int64) (int, error) { return 0, io.ErrShortWrite }
func (m memory) Size() (int64, error)               { return int64(len(m)), nil }
func (m memory) Truncate(int64) error               { return io.ErrShortWrite }
func (m memory) Sync() error                        { return nil }
func (m memory) Close() error                       { return nil }
