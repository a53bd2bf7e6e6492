package store

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// formatVersion is the version that new files have. Version 2 notes in the log that messages have died, and which
// queues have a copy then. Version 3 notes until when they are delayed.
const (
	formatVersion = 3
	oldestVersion = 1
)

// A log file begins with a header, twice, because nothing in the file can be checked without its
// salt:
//
//	magic    4 bytes
//	version  u32
//	number   u64
//	salt     u64  random, part of each record's checksum
//	previous u64  where the segment before this one ends
//	seq      u64  number of the next message
//	crc      u32  of the above
const (
	headerCopy = 64
	headerSize = 2 * headerCopy
	headerUsed = 44
)

const (
	segmentMagic     = "RHSG"
	definitionsMagic = "RHDF"
)

// header is the decoded head of a log file.
type header struct {
	magic    string
	version  uint32
	number   uint64
	salt     uint64
	previous int64
	seq      uint64
}

func newHeader(magic string, number uint64, previous int64, seq uint64) header {
	var salt [8]byte
	rand.Read(salt[:])
	return header{magic: magic, version: formatVersion, number: number, salt: binary.LittleEndian.Uint64(salt[:]), previous: previous, seq: seq}
}

func (h header) encode() []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, h.magic...)
	b = binary.LittleEndian.AppendUint32(b, h.version)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.previous))
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	b = b[:headerSize]
	copy(b[headerCopy:], b[:headerUsed])
	return b
}

// decodeHeader reads a header from either of its copies; sound says whether both were good.
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
	version := binary.LittleEndian.Uint32(b[4:])
	if version < oldestVersion || version > formatVersion {
		return header{}, &VersionError{File: name, Version: version}
	}
	h := header{
		magic:    magic,
		version:  version,
		number:   binary.LittleEndian.Uint64(b[8:]),
		salt:     binary.LittleEndian.Uint64(b[16:]),
		previous: int64(binary.LittleEndian.Uint64(b[24:])),
		seq:      binary.LittleEndian.Uint64(b[32:]),
	}
	if h.number != number {
		return header{}, &CorruptError{File: name, Problem: fmt.Sprintf("this is segment %d under another name", h.number)}
	}
	return h, nil
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

// segment is one file of the log, or the file of definitions, and what of it is live.
type segment struct {
	name   string
	header header

	// The store's mutex guards these.
	file        File     // nil until the committer has created it
	end         int64    // where the next record goes
	written     int64    // how much of it is in the file
	dead        int64    // bytes that would be free if the live messages lay elsewhere
	first, last *Message // the live messages, in the order of their offsets
	sealed      bool     // all of it is on disk for good and nothing more is appended
	indexed     bool     // it has an index, or cannot have one
	aside       *segment // what cannot be read of it, if anything

	// noted is where the last note lies that was read: all before it is on disk. 0: there was none, and not even the header need be.
	// Only who opens a directory uses it.
	noted int64
	blank int64 // where the zeros end that were written ahead; only who has the turn to write uses it
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

func (g *segment) place() place { return place{g.header.salt, g.end} }

// link puts a message at the end of the list.
func (g *segment) link(m *Message) {
	m.segment, m.prev, m.next = g, g.last, nil
	if g.last == nil {
		g.first = m
	} else {
		g.last.next = m
	}
	g.last = m
}

// unlink takes a message out of its list; what it took in the segment is dead.
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
