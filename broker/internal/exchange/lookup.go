package exchange

import (
	"sort"

	"github.com/rehop/rehop/internal/wire"
)

// manyHeaders is from where on sorting a message's headers costs less than searching them in order.
const manyHeaders = 64

// lookup finds a message's headers by key.
type lookup struct {
	headers wire.Table
	sorted  bool
}

func newLookup(headers wire.Table) lookup {
	if len(headers) < manyHeaders {
		return lookup{headers: headers}
	}
	return lookup{headers: sorted(headers), sorted: true}
}

// findLast returns the last header of that key.
func (l lookup) findLast(key string) (value any, ok bool) {
	for nth := 0; ; nth++ {
		next, there := l.find(key, nth)
		if !there {
			return value, ok
		}
		value, ok = next, true
	}
}

// find returns the nth header of that key.
func (l lookup) find(key string, nth int) (any, bool) {
	headers := l.headers
	if l.sorted {
		headers = headers[sort.Search(len(headers), func(i int) bool { return headers[i].Key >= key }):]
		if nth >= len(headers) || headers[nth].Key != key {
			return nil, false
		}
		return headers[nth].Value, true
	}
	for i := range headers {
		if headers[i].Key != key {
			continue
		}
		if nth == 0 {
			return headers[i].Value, true
		}
		nth--
	}
	return nil, false
}
