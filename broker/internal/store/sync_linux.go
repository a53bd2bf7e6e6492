package store

import (
	"os"
	"syscall"
)

// syncData syncs the data of a file, and only the metadata that is needed to read it.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			failed = syscall.Fdatasync(int(fd))
			if failed != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if failed != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: failed}
	}
	return nil
}
