package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// extent is how far the files of a directory reached when it was last closed in order. None of them is ever shorter afterwards: the log
// only grows, in its last segment or in later ones, and so do the definitions, until they are written anew under another salt. So a file that is
// shorter has lost its end, which the file itself cannot tell from what a crash leaves.
//
//	magic       4 bytes
//	version     u32
//	segment     u64  the last of the log
//	end         u64  where it ended
//	salt        u64  of the file of definitions
//	definitions u64  where that ended
//	crc         u32  of the above
type extent struct {
	segment     uint64 // 0: the directory was never closed in order
	end         int64
	salt        uint64
	definitions int64
}

const (
	extentName    = "closed"
	newExtentName = "closed.tmp"
	extentMagic   = "RHCL"
	extentSize    = 44
	extentVersion = 1
)

// endOf is where a segment of the log has to reach.
func (x extent) endOf(number uint64) int64 {
	if number == x.segment {
		return x.end
	}
	return 0
}

// mayEnd says whether the log may end at an offset of a segment.
func (x extent) mayEnd(number uint64, offset int64) bool {
	return number > x.segment || number == x.segment && offset >= x.end
}

// endOfDefinitions is where the file of definitions with a salt has to reach.
func (x extent) endOfDefinitions(salt uint64) int64 {
	if x.segment > 0 && salt == x.salt {
		return x.definitions
	}
	return 0
}

func (x extent) encode() []byte {
	b := append(make([]byte, 0, extentSize), extentMagic...)
	b = binary.LittleEndian.AppendUint32(b, extentVersion)
	b = binary.LittleEndian.AppendUint64(b, x.segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.end))
	b = binary.LittleEndian.AppendUint64(b, x.salt)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.definitions))
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// readExtent reads how far the files reached. A directory without the file was never closed in order, or by an older program.
func readExtent(dir FS) (extent, error) {
	f, err := dir.Open(extentName)
	if errors.Is(err, fs.ErrNotExist) {
		return extent{}, nil
	}
	if err != nil {
		return extent{}, err
	}
	defer f.Close()
	b := make([]byte, extentSize+1)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return extent{}, fmt.Errorf("read %s: %w", extentName, err)
	}
	if n != extentSize || string(b[:4]) != extentMagic || binary.LittleEndian.Uint32(b[extentSize-4:]) != checksum(b[:extentSize-4]) {
		return extent{}, &CorruptError{File: extentName, Problem: "it does not say how long the other files were when the broker was closed"}
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != extentVersion {
		return extent{}, &VersionError{File: extentName, Version: v}
	}
	return extent{
		segment:     binary.LittleEndian.Uint64(b[8:]),
		end:         int64(binary.LittleEndian.Uint64(b[16:])),
		salt:        binary.LittleEndian.Uint64(b[24:]),
		definitions: int64(binary.LittleEndian.Uint64(b[32:])),
	}, nil
}

// noteExtent notes how far the files reach, which are durable. An older note is true too, so a full disk is no reason to fail.
func (s *Store) noteExtent() error {
	s.mu.Lock()
	log, defs := s.log.segment, s.defs.segment
	x := extent{log.header.number, log.end, defs.header.salt, defs.end}
	s.mu.Unlock()
	err := s.writeExtent(x)
	if isDiskFull(err) {
		s.options.Logger.Warn("the disk is full: the length of the log is not noted; a later loss of its end may pass for a crash", "error", err)
		s.removeFile(newExtentName)
		return nil
	}
	return err
}

func (s *Store) writeExtent(x extent) error {
	if err := writeFile(s.fs, newExtentName, x.encode(), File.Sync); err != nil {
		return err
	}
	s.options.Crash(pointClosed)
	if err := s.fs.Rename(newExtentName, extentName); err != nil {
		return err
	}
	return s.fs.Sync()
}

// cutOff is the damage of a file that is shorter than it was.
func cutOff(name string, size, want int64) *CorruptError {
	return &CorruptError{File: name, Offset: size, Problem: fmt.Sprintf("the file ends before offset %d", want)}
}
