package store

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// formatVersion is the version of new files. Version 2 added opDie, and version 3 added opDelay.
const (
	formatVersion = 3
	oldestVersion = 1
)

// A log file begins with two copies of its header, each with a checksum, because nothing in the file can
// be checked without the salt.
const (
	headerCopy = 64 // bytes of a copy, with zeros at its end
	headerSize = 2 * headerCopy
	headerUsed = 44 // bytes of a copy, without the zeros
)

const (
	segmentMagic     = "RHSG"
	definitionsMagic = "RHDF"
)

// header is the format of the header of a log file.
type header struct {
	Magic    [4]byte
	Version  uint32
	Number   uint64
	Salt     uint64 // random, part of the checksum of each record
	Previous int64  // length of the segment before this one
	Seq      uint64 // number of the next message
}

func newHeader(magic string, number uint64, previous int64, seq uint64) header {
	var salt [8]byte
	rand.Read(salt[:])
	return header{[4]byte([]byte(magic)), formatVersion, number, binary.LittleEndian.Uint64(salt[:]), previous, seq}
}

func (h header) encode() []byte {
	b := make([]byte, headerSize)
	for _, c := range [][]byte{b[:headerCopy], b[headerCopy:]} {
		encodeFixed(c, h)
		binary.LittleEndian.PutUint32(c[headerUsed-4:], checksum(c[:headerUsed-4]))
	}
	return b
}

// decodeHeader reads a header from either of its copies. It reports whether both were sound.
func decodeHeader(b []byte, name, magic string, number uint64) (h header, sound bool, err error) {
	first, errFirst := decodeHeaderCopy(b[:headerCopy], name, magic, number)
	second, errSecond := decodeHeaderCopy(b[headerCopy:], name, magic, number)
	switch {
	case errFirst == nil:
		return first, errSecond == nil && first == second, nil
	case errSecond == nil:
		return second, false, nil
	}
	return header{}, false, errFirst
}

func decodeHeaderCopy(b []byte, name, magic string, number uint64) (header, error) {
	if string(b[:4]) != magic {
		return header{}, &CorruptError{File: name, Problem: "this is not a log file of this store"}
	}
	if binary.LittleEndian.Uint32(b[headerUsed-4:]) != checksum(b[:headerUsed-4]) {
		return header{}, &CorruptError{File: name, Problem: "checksum of the header does not match"}
	}
	var h header
	decodeFixed(b, &h)
	if h.Version < oldestVersion || h.Version > formatVersion {
		return header{}, &VersionError{File: name, Version: h.Version}
	}
	if h.Number != number {
		return header{}, &CorruptError{File: name, Problem: fmt.Sprintf("this is segment %d under another name", h.Number)}
	}
	return h, nil
}

// encodeFixed writes the fields of a struct of fixed size to the beginning of b.
func encodeFixed(b []byte, fields any) {
	if _, err := binary.Encode(b, binary.LittleEndian, fields); err != nil {
		panic("store: " + err.Error())
	}
}

// decodeFixed is the inverse of encodeFixed.
func decodeFixed(b []byte, fields any) {
	if _, err := binary.Decode(b, binary.LittleEndian, fields); err != nil {
		panic("store: " + err.Error())
	}
}

const (
	segmentSuffix = ".log"
	indexSuffix   = ".idx"
)

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

func indexName(number uint64) string { return fmt.Sprintf("%016x%s", number, indexSuffix) }

// numberOf is the inverse of segmentName and indexName.
func numberOf(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil && n > 0 && fmt.Sprintf("%016x", n) == digits
}

// segment is a file of the log, with its live messages, or the file of definitions.
type segment struct {
	name   string
	header header

	// The store's mutex protects these.
	file        File     // nil until the committer has created it
	end         int64    // where the next record goes
	written     int64    // up to here it is in the file
	dead        int64    // bytes of garbage
	first, last *Message // the live messages, in the order of their offsets
	sealed      bool     // it is synced, and nothing is appended any more
	indexed     bool     // it has an index, or cannot have one
	aside       *segment // its messages that cannot be read, if any

	// noted is the offset of the last note that was read. Everything before it is synced. 0 means that
	// there was none, so that even the header may not be synced. Only used when a directory is opened.
	noted    int64
	zerosEnd int64 // end of the zeros that were written ahead; only the holder of the turn uses it
}

func newSegment(name string, h header) *segment {
	return &segment{name: name, header: h, end: headerSize}
}

// truncate cuts the file off at the end of its records.
func (g *segment) truncate() error {
	if err := g.file.Truncate(g.end); err != nil {
		return fmt.Errorf("truncate %s at offset %d: %w", g.name, g.end, err)
	}
	return nil
}

func (g *segment) place() place { return place{g.header.Salt, g.end} }

// link appends a message to the list.
func (g *segment) link(m *Message) {
	m.segment, m.prev, m.next = g, g.last, nil
	if g.last == nil {
		g.first = m
	} else {
		g.last.next = m
	}
	g.last = m
}

// unlink removes a message from the list. Its bytes become garbage.
func (g *segment) unlink(m *Message) {
	if m.prev == nil {
		g.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		g.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.segment, m.prev, m.next = nil, nil, nil
	g.dead += m.footprint()
}
