//go:build !linux

package node

func installedMemory() (int64, bool) { return 0, false }
