package store

import (
	"math"
	"testing"
)

// A long TTL survives the log, and does not get shorter.
func TestLongTTL(t *testing.T) {
	const tenYears = 315_360_000_000
	for _, ttl := range []int64{NoTTL, 0, 1, math.MaxUint32, math.MaxUint32 + 1, tenYears} {
		m := Message{size: 6}
		m.setMeta(Meta{TTL: ttl})
		got := m.Meta().TTL
		if got < ttl || got > ttl+999 || (ttl <= math.MaxUint32 && got != ttl) {
			t.Errorf("TTL %d: got %d from the handle", ttl, got)
		}
		m.hold(holder{queue: 1})
		d := decoder{rest: appendMessage(nil, &m, 0, 0)}
		var op operation
		if !d.next(&op) || op.message.meta.TTL != got {
			t.Errorf("TTL %d: got %d from the log, want %d", ttl, op.message.meta.TTL, got)
		}
	}
}
