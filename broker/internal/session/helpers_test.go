package session

import "runtime"

// heapInUse is how many bytes are reachable.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// replyText is the reply text of an error, or "".
func replyText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
