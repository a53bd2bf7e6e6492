package store

import (
	"errors"
	"fmt"
	"io"
)

// Read returns the content of a message that a queue holds, from memory if it is not yet written. The
// error is a *CorruptError if the file is not what was written.
func (s *Store) Read(m *Message) (Content, error) {
	for {
		s.mu.Lock()
		g, offset := m.segment, int64(m.offset)
		if g == nil {
			s.mu.Unlock()
			return Content{}, ErrSettled
		}
		var b []byte
		inMemory := offset >= g.written
		if inMemory {
			b = s.findPending(g, offset, int64(m.size))
		}
		file := g.file
		s.mu.Unlock()

		if !inMemory {
			var err error
			b, err = readContent(g.name, file, offset, m.size, m.crc)
			if err != nil && s.moved(m, g) {
				continue
			}
			if err != nil {
				return Content{}, err
			}
		}
		c, ok := decodeContent(b)
		if !ok {
			return Content{}, &CorruptError{File: g.name, Offset: offset, Problem: "lengths within the content do not fit"}
		}
		return c, nil
	}
}

// findPending returns bytes that are not yet written. The mutex is held.
func (s *Store) findPending(g *segment, offset, size int64) []byte {
	if b := s.writing.find(g, offset, size); b != nil {
		return b
	}
	return s.log.pending.find(g, offset, size)
}

// moved reports whether a message has left a segment, whose file may then be removed.
func (s *Store) moved(m *Message, g *segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.segment != g
}

// readContent reads a content and checks it.
func readContent(name string, f File, offset int64, size, crc uint32) ([]byte, error) {
	b := make([]byte, size)
	if n, err := f.ReadAt(b, offset); n < len(b) {
		if errors.Is(err, io.EOF) {
			return nil, &CorruptError{File: name, Offset: offset, Problem: "the file ends within a content"}
		}
		return nil, fmt.Errorf("read %d bytes of %s at offset %d: %w", size, name, offset, err)
	}
	if checksum(b) != crc {
		return nil, &CorruptError{File: name, Offset: offset, Problem: "checksum of the content does not match"}
	}
	return b, nil
}
