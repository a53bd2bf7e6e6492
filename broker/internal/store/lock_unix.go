//go:build unix && !aix && !solaris

package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lockFile takes a lock that the operating system releases when the process ends. A file that was removed meanwhile locks nothing, so it is
// opened again.
func lockFile(path string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, ErrLocked
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		own, err := f.Stat()
		if err == nil {
			var now os.FileInfo
			if now, err = os.Stat(path); err == nil && os.SameFile(own, now) {
				return lockedFile{f}, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

type lockedFile struct{ *os.File }

// remove implements removableLock.
func (f lockedFile) remove() error { return os.Remove(f.Name()) }
