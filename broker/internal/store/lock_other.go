//go:build !unix || aix || solaris

package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// lockFile takes a lock that a process which is killed leaves behind: then the file has to be
// deleted by hand.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return exclusiveFile{f}, nil
}

type exclusiveFile struct{ *os.File }

func (f exclusiveFile) Close() error {
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}
