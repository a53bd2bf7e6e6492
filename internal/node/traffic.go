package node

import (
	"io"
	"sync/atomic"
)

// Traffic is what publishers did and were told since the broker began.
type Traffic struct {
	Published uint64 // messages, wherever they went
	Confirmed uint64 // and not refused
	Returned  uint64 // because no queue was bound
}

// traffic counts that for a channel or a virtual host.
type traffic struct{ published, confirmed, returned atomic.Uint64 }

func (t *traffic) sum() Traffic {
	return Traffic{Published: t.published.Load(), Confirmed: t.confirmed.Load(), Returned: t.returned.Load()}
}

// Traffic returns what the publishers of a virtual host did.
func (v *Vhost) Traffic() Traffic { return v.traffic.sum() }

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
