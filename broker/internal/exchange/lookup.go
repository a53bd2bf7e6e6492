package exchange

import (
	"cmp"
	"slices"

	"github.com/rehop/rehop/internal/wire"
)

// manyHeaders is from how many headers on it is faster to sort them than to search them in order.
const manyHeaders = 64

// lookup finds the headers of a message by key.
type lookup struct {
	headers wire.Table
	sorted  bool
}

func newLookup(headers wire.Table) lookup {
	if len(headers) < manyHeaders {
		return lookup{headers: headers}
	}
	return lookup{headers: headers.Sorted(), sorted: true}
}

// findLast returns the last header with a key.
func (l lookup) findLast(key string) (value any, ok bool) {
	for nth := 0; ; nth++ {
		next, exists := l.find(key, nth)
		if !exists {
			return value, ok
		}
		value, ok = next, true
	}
}

// find returns the nth header with a key.
func (l lookup) find(key string, nth int) (any, bool) {
	if l.sorted {
		at, _ := slices.BinarySearchFunc(l.headers, key, func(f wire.Field, key string) int { return cmp.Compare(f.Key, key) })
		if at += nth; at < len(l.headers) && l.headers[at].Key == key {
			return l.headers[at].Value, true
		}
		return nil, false
	}
	for _, f := range l.headers {
		if f.Key != key {
			continue
		}
		if nth == 0 {
			return f.Value, true
		}
		nth--
	}
	return nil, false
}
