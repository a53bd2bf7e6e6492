package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// extent is the length of the files when the directory was last closed cleanly. No file gets shorter
// afterwards: the log only grows, in its last segment or in later ones, and so do the definitions, until
// they are rewritten under another salt. So a shorter file has lost its end. The file alone does not show
// that: it looks as after a crash.
type extent struct {
	Segment     uint64 // the last of the log; 0: the directory was never closed cleanly
	End         int64  // of that segment
	Salt        uint64 // of the file of definitions
	Definitions int64  // end of that file
}

// extentFile is the format of the file with the extent. A checksum follows it.
type extentFile struct {
	Magic   [4]byte
	Version uint32
	Extent  extent
}

const (
	extentName    = "closed"
	newExtentName = "closed.tmp"
	extentMagic   = "RHCL"
	extentSize    = 44
	extentVersion = 1
)

// endOf returns the minimum length of a segment.
func (x extent) endOf(number uint64) int64 {
	if number == x.Segment {
		return x.End
	}
	return 0
}

// mayEnd reports whether the log may end at an offset of a segment.
func (x extent) mayEnd(number uint64, offset int64) bool {
	return number > x.Segment || number == x.Segment && offset >= x.End
}

// endOfDefinitions returns the minimum length of the file of definitions with a salt.
func (x extent) endOfDefinitions(salt uint64) int64 {
	if x.Segment > 0 && salt == x.Salt {
		return x.Definitions
	}
	return 0
}

func (x extent) encode() []byte {
	b := make([]byte, extentSize)
	encodeFixed(b, extentFile{[4]byte([]byte(extentMagic)), extentVersion, x})
	binary.LittleEndian.PutUint32(b[extentSize-4:], checksum(b[:extentSize-4]))
	return b
}

// readExtent reads the extent. A directory without the file was never closed cleanly, or by an older program.
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
		return extent{}, &CorruptError{File: extentName, Problem: "the length of the other files at the last stop cannot be read"}
	}
	var file extentFile
	decodeFixed(b, &file)
	if file.Version != extentVersion {
		return extent{}, &VersionError{File: extentName, Version: file.Version}
	}
	return file.Extent, nil
}

// noteExtent writes the extent of the synced files. An older extent is also valid, so a full disk is no
// reason to fail.
func (s *Store) noteExtent() error {
	s.mu.Lock()
	log, defs := s.log.segment, s.defs.segment
	x := extent{log.header.Number, log.end, defs.header.Salt, defs.end}
	s.mu.Unlock()
	err := s.writeExtent(x)
	if isDiskFull(err) {
		s.options.Logger.Warn("the disk is full: cannot store the length of the log, so that a later loss of its end may look like a crash", "error", err)
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

// cutOff returns the damage of a file that is shorter than it was.
func cutOff(name string, size, want int64) *CorruptError {
	return &CorruptError{File: name, Offset: size, Problem: fmt.Sprintf("the file ends before offset %d", want)}
}
