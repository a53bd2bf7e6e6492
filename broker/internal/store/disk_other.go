//go:build !linux

package store

import (
	"errors"
	"math"
	"syscall"
)

// freeSpace is not implemented: a full disk is noticed when a write fails.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

// isDiskFull reports whether a write failed because the disk or a quota is full, which may be temporary.
func isDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
