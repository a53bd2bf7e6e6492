package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// copyBatch is how many bytes are copied in one record, unless a message is larger.
	copyBatch = chunkSize
	// copyAtOnce is how many bytes are copied before they have to be durable.
	copyAtOnce = 1 << 20
	// segmentsAtOnce is how many segments are copied before one record discards them. Segments can be so
	// small that each sync begins a new one.
	segmentsAtOnce = 64
)

// copySome copies the live messages of the oldest segments to the end of the log. It returns false if
// that is not worth it.
func (s *Store) copySome() (bool, error) {
	unsynced := int64(0)
	for n := range segmentsAtOnce {
		g := s.wantsCopying()
		if s.readFailures.segment != g {
			s.readFailures = readFailures{} // the other segment need not be read any more
		}
		if g == nil || s.readFailures.waits() {
			return n > 0, nil
		}
		err := s.copyOut(g, &unsynced)
		if _, unread := errors.AsType[*readError](err); unread {
			s.readFailures.note(g)
			s.options.Logger.Warn("cannot read a message; its segment is kept and read again later", "error", err, "try", s.readFailures.tries, "again in", s.readFailures.pause)
			return n > 0, nil
		}
		if err != nil {
			return false, err
		}
		s.readFailures = readFailures{}
	}
	return true, nil
}

// wantsCopying returns the oldest segment with live messages if there is more garbage than live data.
// Then copying frees more than it writes.
func (s *Store) wantsCopying() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.index.deadSegments() // they are about to be removed
	total, dead := s.index.weigh(n)
	if dead <= total-dead+cleanSlack*s.options.SegmentSize || !s.index.segments[n].sealed {
		return nil
	}
	return s.index.segments[n]
}

// copied is a message that is being copied, and where it was when it was read.
type copied struct {
	message          *Message
	offset           int64
	size             uint32
	crc              uint32
	content          []byte
	properties, body int // lengths
}

// copyOut copies the live messages of a segment to the end of the log. It waits if too much of that is
// not yet durable. It sets aside messages that are damaged, or could not be read for a long time. For a
// message that may be readable later, the error is a *readError.
func (s *Store) copyOut(g *segment, unsynced *int64) error {
	for {
		if s.stopped() {
			return errStopping
		}
		batch := s.nextToCopy(g)
		if len(batch) == 0 {
			return nil
		}
		readable := batch[:0]
		for _, c := range batch {
			err := c.read(g)
			switch {
			case err == nil:
				readable = append(readable, c)
			case !isDamage(err) && !s.readFailures.lasts(g):
				return &readError{err}
			default:
				if err := s.setAside(g, c.message, err); err != nil {
					return err
				}
			}
		}
		size, mark := s.appendCopies(g, readable)
		s.options.Crash(pointCopied)
		if *unsynced += size; *unsynced >= copyAtOnce {
			*unsynced = 0
			if err := s.Wait(context.Background(), mark); err != nil {
				return err
			}
		}
	}
}

// nextToCopy returns the first live messages of a segment, at least one if there are any.
func (s *Store) nextToCopy(g *segment) []copied {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []copied
	size := int64(0)
	for m := g.first; m != nil; m = m.next {
		if size += int64(m.size); size > copyBatch && len(batch) > 0 {
			break
		}
		batch = append(batch, copied{message: m, offset: int64(m.offset), size: m.size, crc: m.crc})
	}
	return batch
}

// read reads the content.
func (c *copied) read(g *segment) error {
	var err error
	if c.content, err = readContent(g.name, g.file, c.offset, c.size, c.crc); err != nil {
		return err
	}
	content, ok := decodeContent(c.content)
	if !ok {
		return &CorruptError{File: g.name, Offset: c.offset, Problem: "lengths within the content do not fit"}
	}
	c.properties, c.body = len(content.Properties), len(content.Body)
	return nil
}

// appendCopies appends the messages that are still live, with their current holders. It returns the
// number of bytes.
func (s *Store) appendCopies(g *segment, batch []copied) (int64, Mark) {
	s.mu.Lock()
	var operations []byte
	contents := int64(0)
	live := batch[:0]
	for _, c := range batch {
		if c.message.segment != g {
			continue
		}
		operations = appendMessage(operations, c.message, c.properties, c.body)
		operations = s.index.appendStates(operations, c.message)
		contents += int64(c.size)
		live = append(live, c)
	}
	if len(live) == 0 {
		s.mu.Unlock()
		return 0, 0
	}
	k := s.appendRecord(operations, checksum(operations), contents, 0)
	offset := k.segment.end - contents
	for _, c := range live {
		if contents > chunkSize {
			s.log.attach(c.content) // it is the only one
		} else {
			k.data = append(k.data, c.content...)
		}
		s.index.move(c.message, k.segment, offset)
		offset += int64(c.size)
	}
	s.stats.Copied += int64(len(live))
	mark, wake := s.committed()
	s.unlock(wake)
	return contents, mark
}

// setAside gives up a message that cannot be read, so that the others can be copied. The file of its
// segment is kept under another name. After a restart the message does not exist any more.
func (s *Store) setAside(g *segment, m *Message, why error) error {
	name, err := asideName(s.fs, g.name)
	if err != nil {
		return errors.Join(why, err)
	}
	s.mu.Lock()
	held := m.segment == g
	if held {
		s.index.setAside(m, name)
		s.stats.SetAside++
	}
	s.mu.Unlock()
	if held {
		s.options.Logger.Error("cannot read a message; it is set aside", "message", m.seq, "error", why, "file will be", name)
	}
	return nil
}

// moveAside renames the file of a segment of which a message was set aside.
func (s *Store) moveAside(g *segment) {
	if err := errors.Join(s.fs.Rename(g.name, g.aside.name), s.fs.Sync()); err != nil {
		s.options.Logger.Error("cannot rename a file with a message that cannot be read; the next start will remove it", "file", g.name, "error", err)
	}
}

const damagedSuffix = ".damaged"

// asideName returns a name for a file that is set aside.
func asideName(dir FS, name string) (string, error) {
	taken, err := dir.List()
	if err != nil {
		return "", err
	}
	aside := name + damagedSuffix
	for i := 2; slices.Contains(taken, aside); i++ {
		aside = fmt.Sprintf("%s%s-%d", name, damagedSuffix, i)
	}
	return aside, nil
}

// asideFiles returns the names of the files that were set aside.
func asideFiles(dir FS) ([]string, error) {
	names, err := dir.List()
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, damagedSuffix) }), err
}
