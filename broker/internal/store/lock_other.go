//go:build !unix || aix || solaris

package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// lockFile creates a lock file. If the process is killed, the file stays and must be deleted manually.
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
