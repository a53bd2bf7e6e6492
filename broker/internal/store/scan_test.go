package store

import (
	"bytes"
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
		body := bytes.Repeat([]byte{7}, int(s.Stats().Bytes%1500))
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
	s := &Store{index: messageIndex{segments: []*segment{g}}}
	r := s.newLogReader(nil, func(Found) *Message { return new(Message) })
	if err := r.scanSegment(g, headerSize); err != nil {
		t.Fatal(err)
	}
	return r, g
}

// A log that is cut off at any byte, or has zeros from there on, has exactly the records before the cut.
func TestTruncationAtEveryByte(t *testing.T) {
	const tail = 64 << 10
	log := realLog(t, tail+1000)
	// What is live after each record.
	messages := make(map[int64]int)
	r, g := readCut(t, log)
	sc := scan(g.file, g.header.Salt, headerSize, g.end)
	for sc.next() {
		upTo, _ := readCut(t, log[:sc.nextOffset])
		messages[sc.nextOffset] = upTo.index.messages
	}
	if r.torn != 0 || sc.problem != "" || len(messages) < 50 {
		t.Fatalf("got %d records, %d bytes torn, problem %q in a whole log", len(messages), r.torn, sc.problem)
	}
	records := sc.nextOffset // where they end and the zeros begin
	if records == int64(len(log)) {
		t.Error("got a log that ends with its last record, want zeros behind that")
	}
	end := int64(headerSize) // of the last record before the cut
	for size := int64(headerSize); size <= int64(len(log)); size++ {
		if _, whole := messages[size]; whole {
			end = size
		}
		if size < records-tail || size%Thinning != 0 || size > records && size%997 != 0 {
			continue
		}
		cuts := [][]byte{log[:size]}
		if size-end < 30 || size%11 == 0 {
			cuts = append(cuts, append(log[:size:size], make([]byte, 2000)...))
		}
		for _, cut := range cuts {
			torn := int64(len(bytes.TrimRight(log[end:size], "\x00")))
			r, g := readCut(t, cut)
			if g.end != end || r.torn != torn || len(r.damage) > 0 {
				t.Fatalf("cut off at %d of %d, %d bytes: got an end at %d, %d bytes torn, damage %v; want an end at %d, %d bytes torn, and no damage",
					size, records, len(cut), g.end, r.torn, r.damage, end, torn)
			}
			if got, want := r.index.messages, messages[end]; got != want {
				t.Fatalf("cut off at %d of %d, %d bytes: got %d messages, want %d", size, records, len(cut), got, want)
			}
		}
	}
}
