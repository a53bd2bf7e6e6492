package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

const scanBuffer = 1 << 20

// scanner reads the records of a log file one after the other and checks them.
type scanner struct {
	in          *bufio.Reader
	hasher      hasher
	salt        uint64
	end         int64 // of the file
	header      recordHeader
	offset      int64 // of the record
	nextOffset  int64
	operations  []byte // of the record, until the next call of next
	badContents []int  // positions of the record's messages with damaged contents
	problem     string // why the bytes at offset are not a record
	invalid     bool   // they are a complete record, but not a valid one
	err         error  // why the file could not be read
}

// scan returns a scanner for the records between two offsets.
func scan(f io.ReaderAt, salt uint64, offset, end int64) *scanner {
	return &scanner{
		in:         bufio.NewReaderSize(io.NewSectionReader(f, offset, end-offset), int(min(scanBuffer, max(end-offset, 16)))),
		salt:       salt,
		end:        end,
		nextOffset: offset,
	}
}

// next reads the next record. It returns false at the end, if the next bytes are not a record, and if the
// file cannot be read.
func (s *scanner) next() bool {
	s.offset = s.nextOffset
	s.badContents = s.badContents[:0]
	rest := s.end - s.offset
	if rest == 0 {
		return false
	}
	if rest < recordHeaderSize {
		return s.fail("the file ends within a record")
	}
	head, err := s.in.Peek(recordHeaderSize)
	if err != nil {
		return s.readError(err)
	}
	s.header = decodeRecordHeader(head)
	s.in.Discard(recordHeaderSize)
	if s.header.operations == 0 {
		return s.fail("no record begins here")
	}
	if s.header.size() > rest {
		return s.fail("the file ends within a record")
	}
	if err := s.readOperations(); err != nil {
		return s.readError(err)
	}
	if !s.hasher.valid(s.header, s.operations, place{s.salt, s.offset}) {
		return s.fail("checksum of the record does not match")
	}
	s.nextOffset = s.offset + s.header.size()
	return s.checkContents()
}

func (s *scanner) readOperations() error {
	n := int(s.header.operations)
	s.operations = slices.Grow(s.operations[:0], n)[:n]
	_, err := io.ReadFull(s.in, s.operations)
	return err
}

// checkContents compares each content with the checksum in its operation.
func (s *scanner) checkContents() bool {
	left := int64(s.header.contents)
	d := decoder{rest: s.operations}
	var op operation
	for i := 0; d.next(&op); {
		if op.kind != opPublish && op.kind != opCopy {
			continue
		}
		if left -= int64(op.message.size); left < 0 {
			break
		}
		sum, err := s.sumContent(int64(op.message.size))
		if err != nil {
			return s.readError(err)
		}
		if sum != op.message.crc {
			s.badContents = append(s.badContents, i)
		}
		i++
	}
	if d.bad || left != 0 {
		return s.reject("the record is not valid in this version of the program")
	}
	return true
}

// reject is for an invalid record with a correct checksum.
func (s *scanner) reject(problem string) bool {
	s.invalid = true
	return s.fail(problem)
}

func (s *scanner) sumContent(size int64) (uint32, error) {
	sum := uint32(0)
	for size > 0 {
		b, err := s.in.Peek(int(min(size, int64(s.in.Size()))))
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		s.in.Discard(len(b))
		size -= int64(len(b))
	}
	return sum, nil
}

func (s *scanner) fail(problem string) bool {
	s.problem = problem
	return false
}

// readError handles a file that is shorter than it was, or cannot be read.
func (s *scanner) readError(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.fail("the file ends within a record")
	}
	s.err = fmt.Errorf("read at offset %d: %w", s.offset, err)
	return false
}

// corrupt returns why the scanner could not read a file to its end.
func (s *scanner) corrupt(name string) *CorruptError {
	return &CorruptError{File: name, Offset: s.offset, Problem: s.problem}
}

// recordReader reads the records of a log file up to its end or to damage, or past damage.
type recordReader struct {
	segment *segment
	salvage bool                    // continue after damage
	apply   func(*scanner) string   // applies a record, or returns what is wrong with it
	mayEnd  func(offset int64) bool // whether the log may end there
	torn    int64                   // bytes that a crash left after the end of the log
	damage  []*CorruptError
}

func (r *recordReader) read(from int64) error {
	for {
		resume, err := r.readFrom(from)
		if err != nil || resume == 0 {
			return err
		}
		from = resume
	}
}

// readFrom returns where to continue after damage, or 0.
func (r *recordReader) readFrom(offset int64) (resume int64, err error) {
	g := r.segment
	sc := scan(g.file, g.header.Salt, offset, g.end)
	for sc.next() {
		if len(sc.badContents) > 0 {
			sc.problem = "checksum of a content does not match"
			if v, err := checkEnd(g, sc, r.mayEnd(sc.offset)); err != nil || v.ends || !r.salvage {
				break
			}
			r.damage = append(r.damage, sc.corrupt(g.name))
			sc.problem = ""
		}
		if problem := r.apply(sc); problem != "" {
			sc.reject(problem)
			break
		}
		if isNote(sc.operations) {
			g.noted = sc.offset
		}
	}
	if sc.err != nil || sc.problem == "" {
		return 0, sc.err
	}
	v, err := checkEnd(g, sc, r.mayEnd(sc.offset))
	if err != nil {
		return 0, err
	}
	if v.ends {
		r.torn = v.torn
		g.end = sc.offset
		return 0, nil
	}
	r.damage = append(r.damage, sc.corrupt(g.name))
	if !r.salvage {
		return 0, nil
	}
	return v.resume, nil
}

// logEnd describes a place at which there is no record.
type logEnd struct {
	ends   bool  // the log ends here
	torn   int64 // bytes of an unfinished write after the end, without zeros
	resume int64 // where records continue after damage, or 0
}

// checkEnd finds out whether the log ends where the scanner stopped, or is damaged there. A crash can only
// damage what was not synced. So if a later note means that it was synced, it is damage.
func checkEnd(g *segment, sc *scanner, mayEnd bool) (logEnd, error) {
	note, found, err := laterNote(g.file, g.header.Salt, sc.offset+1, g.end)
	switch {
	case err != nil:
		return logEnd{}, err
	case mayEnd && !found && !sc.invalid:
		torn, err := zerosFrom(g.file, sc.offset, g.end)
		return logEnd{ends: true, torn: torn - sc.offset}, err
	}
	next := sc.offset + sc.header.size()
	if next < g.end && scan(g.file, g.header.Salt, next, g.end).next() {
		return logEnd{resume: next}, nil
	}
	return logEnd{resume: note}, nil
}

// laterNote finds the first note at or after an offset. Bytes that look like one by chance have no valid
// checksum, which covers the place.
func laterNote(f File, salt uint64, offset, end int64) (at int64, found bool, err error) {
	const size = recordHeaderSize + 1
	var lengths [8]byte
	binary.LittleEndian.PutUint32(lengths[:], 1)
	buf := make([]byte, min(scanBuffer, max(end-offset, 0)))
	var hasher hasher
	for offset+size <= end {
		b := buf[:min(int64(len(buf)), end-offset)]
		if _, err := f.ReadAt(b, offset); err != nil && !errors.Is(err, io.EOF) {
			return 0, false, fmt.Errorf("read at offset %d: %w", offset, err)
		}
		for i := 0; i+size <= len(b); i++ {
			skip := bytes.Index(b[i+4:], lengths[:])
			if skip < 0 || i+skip+size > len(b) {
				break
			}
			i += skip
			kind := operationKind(b[i+recordHeaderSize])
			h := decodeRecordHeader(b[i:])
			if (kind == opSynced || kind == opClosed) && hasher.valid(h, b[i+recordHeaderSize:][:1], place{salt, offset + int64(i)}) {
				return offset + int64(i), true, nil
			}
		}
		if offset+int64(len(b)) >= end {
			break
		}
		offset += int64(len(b)) - size + 1
	}
	return 0, false, nil
}
