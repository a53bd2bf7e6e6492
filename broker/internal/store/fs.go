package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// FS is the directory that a store keeps its files in. Names have no slashes.
type FS interface {
	// List returns the names of all files.
	List() ([]string, error)
	// Create creates an empty file, and replaces a file with that name.
	Create(name string) (File, error)
	// Open opens a file that exists.
	Open(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes created, renamed and removed files durable.
	Sync() error
	// Free returns how many bytes can still be written.
	Free() (int64, error)
	// Lock creates the directory if needed, and locks it until the lock is closed. The error is ErrLocked
	// if it is already locked.
	Lock() (io.Closer, error)
}

// File is an open file. Close may be called during ReadAt, which then may fail.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes what was written durable.
	Sync() error
}

// writeFile creates a file with some content.
func writeFile(dir FS, name string, content []byte, sync func(File) error) error {
	f, err := dir.Create(name)
	if err != nil {
		return err
	}
	n, err := f.WriteAt(content, 0)
	if err == nil && n < len(content) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = sync(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

const lockName = "LOCK"

// removableLock is a lock whose file stays when it is closed, unless it is removed before.
type removableLock interface{ remove() error }

// Dir returns a directory of the operating system.
func Dir(path string) FS { return directory(path) }

type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d directory) Create(name string) (File, error) {
	return openFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (d directory) Open(name string) (File, error) { return openFile(d.path(name), os.O_RDWR) }

func (d directory) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d directory) Remove(name string) error { return os.Remove(d.path(name)) }

func (d directory) Sync() error { return syncDir(string(d)) }

func (d directory) Free() (int64, error) { return freeSpace(string(d)) }

func (d directory) Lock() (io.Closer, error) {
	if err := makeDir(string(d)); err != nil {
		return nil, err
	}
	return lockFile(d.path(lockName))
}

// makeDir is os.MkdirAll, with syncs.
func makeDir(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the names in a directory durable. Windows does that itself.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type osFile struct{ *os.File }

func openFile(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Sync() error { return syncData(f.File) }
