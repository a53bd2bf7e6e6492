package store

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by methods that need an open store.
	ErrClosed = errors.New("the store is closed")
	// ErrLocked is returned if another process has the directory open.
	ErrLocked = errors.New("another process has this directory open; stop it or use another directory")
	// ErrNoStore is returned for a directory without a store.
	ErrNoStore = errors.New("the directory has no broker data in it")
	// ErrSettled is returned by Read for a message that no queue holds.
	ErrSettled = errors.New("the message is not held by any queue")
	// ErrFull is returned by Close if the disk was too full to write what was pending.
	ErrFull = errors.New("the disk is full: free some space and start again; what was not confirmed is lost")
)

// CorruptError is a place at which a file is not what was written.
type CorruptError struct {
	File    string
	Offset  int64
	Problem string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt at offset %d: %s; restore it from a copy, or set aside what is bad with a repair", e.File, e.Offset, e.Problem)
}

// VersionError is for a file of an unknown format version.
type VersionError struct {
	File    string
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d and this program knows versions %d to %d; open it with the program that wrote it", e.File, e.Version, oldestVersion, formatVersion)
}
