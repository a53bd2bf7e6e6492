package store

import (
	"os"
	"path/filepath"
	"testing"
)

// realLog returns the bytes of a segment that a store has written.
func realLog(t *testing.T, size int64) []byte {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(Dir(dir), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Recover(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	var b Batch
	var held []*Message
	for s.Stats().Bytes < size {
		if len(held) > 10 {
			b.Settle(held[0], 1)
			if b.Settle(held[0], 2); len(held)%2 == 0 {
				b.Count(held[1], 2, len(held))
			}
			held = held[1:]
		}
		m := new(Message)
		body := make([]byte, s.Stats().Bytes%1500)
		b.Publish(m, Content{Exchange: "exchange", Key: "key", Body: body}, Meta{}, []QueueID{1, 2})
		if err := s.Wait(t.Context(), s.Commit(&b)); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		held = append(held, m)
	}
	content, err := os.ReadFile(filepath.Join(dir, segmentName(1)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// readCut reads a log that ends early, as the last segment.
func readCut(t *testing.T, log []byte) (*logReader, *segment) {
	t.Helper()
	g := newSegment(segmentName(1), header{})
	g.file, g.end = memory(log), int64(len(log))
	if _, err := readHeader(g, segmentMagic, 1); err != nil {
		t.Fatal(err)
	}
	l := &ledger{segments: []*segment{g}}
	r := newLogReader(nil, l, nil, func(Found) *Message { return new(Message) })
	if _, err := r.scanSegment(g, headerSize); err != nil {
		t.Fatal(err)
	}
	return r, g
}

// A log that is cut off at any byte holds the records that end before the cut, and nothing else.
func TestTruncationAtEveryByte(t *testing.T) {
	const tail = 64 << 10
	log := realLog(t, tail+1000)
	// What is live after each record.
	messages := make(map[int64]int)
	r, g := readCut(t, log)
	sc := scan(g.file, g.header.salt, headerSize, g.end)
	for sc.next() {
		upTo, _ := readCut(t, log[:sc.nextOffset])
		messages[sc.nextOffset] = upTo.ledger.messages
	}
	if r.torn != 0 || sc.problem != "" || len(messages) < 50 {
		t.Fatalf("got %d records, %d bytes torn, problem %q in a whole log", len(messages), r.torn, sc.problem)
	}
	end := int64(headerSize) // of the last record before the cut
	for size := int64(headerSize); size <= int64(len(log)); size++ {
		if _, whole := messages[size]; whole {
			end = size
		}
		if size < int64(len(log)-tail) || size%Thinning != 0 {
			continue
		}
		r, g := readCut(t, log[:size])
		if g.end != end || r.torn != size-end || len(r.damage) > 0 {
			t.Fatalf("cut off at %d of %d: got an end at %d, %d bytes torn, damage %v; want an end at %d and no damage", size, len(log), g.end, r.torn, r.damage, end)
		}
		if got, want := r.ledger.messages, messages[end]; got != want {
			t.Fatalf("cut off at %d of %d: got %d messages, want %d", size, len(log), got, want)
		}
	}
}
