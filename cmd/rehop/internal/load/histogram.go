package load

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets whose width grows with the duration, for a precision of about 2 %. It is not safe for concurrent
// use.
type histogram struct {
	counts  [64 * slots]int64
	n       int64
	longest time.Duration
}

// slots is the number of buckets between one power of two and the next.
const slots = 32

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d)]++
	h.n++
	h.longest = max(h.longest, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.longest = max(h.longest, other.longest)
}

// bucket returns the bucket of a duration. It is exact below slots, and above has the highest bits.
func bucket(d time.Duration) int {
	v := uint64(d)
	if v < slots {
		return int(v)
	}
	shift := bits.Len64(v) - bits.Len64(slots)
	return shift*slots + int(v>>shift)
}

// top is the longest duration in a bucket.
func top(bucket int) time.Duration {
	if bucket < slots {
		return time.Duration(bucket)
	}
	shift := bucket/slots - 1
	return time.Duration(uint64(bucket-shift*slots+1)<<shift - 1)
}

// quantile returns the duration that this part of all durations does not exceed.
func (h *histogram) quantile(part float64) time.Duration {
	rank := int64(part*float64(h.n-1)) + 1
	seen := int64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return min(top(i), h.longest)
		}
	}
	return 0
}
