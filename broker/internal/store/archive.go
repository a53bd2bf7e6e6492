package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// An archive is a backup as a stream. Its end has a checksum of everything before, so that an archive that
// is cut off or changed is never restored.
//
//	magic    "RHBK"
//	version  u32
//	entries:
//	  'f' u8 length, name    a file begins
//	  'b' u32 length, bytes  the next bytes of this file
//	  'e' SHA-256            of everything before it; the last entry
//	  'x' u16 length, text   why the backup was given up; the last entry
const (
	archiveMagic   = "RHBK"
	archiveVersion = 1
	archiveHead    = 8

	entryFile  = 'f'
	entryBytes = 'b'
	entryEnd   = 'e'
	entryError = 'x'

	// archiveBuffer is how many bytes are written and read at a time.
	archiveBuffer = 64 << 10
	maxReason     = 1000 // bytes of an entryError
)

// ErrBadBackup is returned for a backup that is incomplete, damaged, or no backup.
var ErrBadBackup = errors.New("the backup cannot be used")

func badBackup(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadBackup, fmt.Sprintf(format, args...))
}

// archiveWriter writes an archive. After the first error it writes nothing, and err is set.
type archiveWriter struct {
	out  *bufio.Writer
	hash hash.Hash
	err  error
}

func newArchiveWriter(w io.Writer) *archiveWriter {
	a := &archiveWriter{out: bufio.NewWriterSize(w, archiveBuffer), hash: sha256.New()}
	a.put(binary.LittleEndian.AppendUint32([]byte(archiveMagic), archiveVersion))
	return a
}

// put writes bytes that the checksum covers.
func (a *archiveWriter) put(b []byte) {
	if a.err == nil {
		a.hash.Write(b)
		_, a.err = a.out.Write(b)
	}
}

// begin begins a file.
func (a *archiveWriter) begin(name string) error {
	a.put(append([]byte{entryFile, byte(len(name))}, name...))
	return a.err
}

// Write appends bytes to the file.
func (a *archiveWriter) Write(b []byte) (int, error) {
	if len(b) > 0 {
		a.put(binary.LittleEndian.AppendUint32([]byte{entryBytes}, uint32(len(b))))
		a.put(b)
	}
	return len(b), a.err
}

// finish ends the archive. Without this call it is incomplete.
func (a *archiveWriter) finish() error {
	a.put([]byte{entryEnd})
	a.put(a.hash.Sum(nil))
	return a.flush()
}

// giveUp ends an archive that cannot be completed, so that its reader learns why.
func (a *archiveWriter) giveUp(reason string) error {
	reason = reason[:min(len(reason), maxReason)]
	a.put(binary.LittleEndian.AppendUint16([]byte{entryError}, uint16(len(reason))))
	a.put([]byte(reason))
	return a.flush()
}

func (a *archiveWriter) flush() error {
	if a.err == nil {
		a.err = a.out.Flush()
	}
	return a.err
}

// archiveReader reads an archive. Its memory does not depend on what the archive contains.
type archiveReader struct {
	in   *bufio.Reader
	hash hash.Hash
	read int64  // bytes so far
	left uint32 // bytes of the current entryBytes that are not read yet
}

// newArchiveReader reads the beginning of an archive.
func newArchiveReader(r io.Reader) (*archiveReader, error) {
	a := &archiveReader{in: bufio.NewReaderSize(r, archiveBuffer), hash: sha256.New()}
	head := make([]byte, archiveHead)
	if err := a.take(head); err != nil {
		return nil, err
	}
	if string(head[:4]) != archiveMagic {
		return nil, badBackup("it is not a backup of a broker")
	}
	if v := binary.LittleEndian.Uint32(head[4:]); v != archiveVersion {
		return nil, badBackup("it has format version %d and this program knows version %d; restore it with the program that wrote it", v, archiveVersion)
	}
	return a, nil
}

// take reads bytes that the checksum covers.
func (a *archiveReader) take(b []byte) error {
	n, err := io.ReadFull(a.in, b)
	a.hash.Write(b[:n])
	a.read += int64(n)
	return a.readError(err)
}

func (a *archiveReader) readError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return badBackup("it is incomplete and ends after %d bytes", a.read)
	case err != nil:
		return fmt.Errorf("read the backup after %d bytes: %w", a.read, err)
	}
	return nil
}

// next returns the name of the next file, whose bytes Read returns. The name is empty after the last file,
// when the checksum was compared.
func (a *archiveReader) next() (name string, err error) {
	kind := make([]byte, 1)
	if err := a.take(kind); err != nil {
		return "", err
	}
	switch kind[0] {
	case entryFile:
		length := make([]byte, 1)
		if err := a.take(length); err != nil {
			return "", err
		}
		b := make([]byte, length[0])
		if err := a.take(b); err != nil {
			return "", err
		}
		if len(b) == 0 {
			return "", badBackup("a file has no name")
		}
		return string(b), nil
	case entryEnd:
		return "", a.end()
	case entryError:
		return "", a.reason()
	}
	return "", badBackup("it is damaged before byte %d", a.read)
}

// end compares the checksum. Nothing may follow it.
func (a *archiveReader) end() error {
	want, got := a.hash.Sum(nil), make([]byte, sha256.Size)
	if err := a.take(got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return badBackup("its checksum does not match")
	}
	if _, err := a.in.ReadByte(); err == nil {
		return badBackup("there is something after its end")
	} else if !errors.Is(err, io.EOF) {
		return a.readError(err)
	}
	return nil
}

// reason returns why the backup was given up.
func (a *archiveReader) reason() error {
	length := make([]byte, 2)
	if err := a.take(length); err != nil {
		return err
	}
	text := make([]byte, min(binary.LittleEndian.Uint16(length), maxReason))
	if err := a.take(text); err != nil {
		return err
	}
	return badBackup("it is incomplete, because the broker gave it up: %q", text)
}

// Read reads from the current file.
func (a *archiveReader) Read(b []byte) (int, error) {
	for a.left == 0 {
		kind, err := a.in.Peek(1)
		if err != nil {
			return 0, a.readError(err)
		}
		if kind[0] != entryBytes {
			return 0, io.EOF
		}
		head := make([]byte, 5)
		if err := a.take(head); err != nil {
			return 0, err
		}
		a.left = binary.LittleEndian.Uint32(head[1:])
	}
	b = b[:min(len(b), int(a.left))]
	n, err := a.in.Read(b)
	a.hash.Write(b[:n])
	a.read += int64(n)
	a.left -= uint32(n)
	return n, a.readError(err)
}
