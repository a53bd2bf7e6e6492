package session

import (
	"io"
	"sync/atomic"
)

// meter counts the bytes that are read from a client.
type meter struct {
	source io.Reader
	bytes  atomic.Uint64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.source.Read(p)
	m.bytes.Add(uint64(n))
	return n, err
}
