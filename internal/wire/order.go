package wire

import (
	"bytes"
	"slices"
)

// OrderTable sorts the fields of an encoded table, which begins with its length, by their keys, and
// makes unsigned 64-bit integers signed. It works in place, and reports whether all keys are different.
// The table must be one that ParseHeader has checked.
func OrderTable(raw []byte) bool {
	type field struct {
		key      []byte
		from, to int
	}
	var few [24]field
	fields := few[:0]
	inOrder := true
	c := codec{buf: raw[4:], makeSigned: true}
	for len(c.buf) > 0 && c.err == nil {
		f := field{from: len(raw) - len(c.buf)}
		f.key = c.readShort()
		c.skipValue()
		f.to = len(raw) - len(c.buf)
		if n := len(fields); n > 0 && bytes.Compare(fields[n-1].key, f.key) >= 0 {
			inOrder = false
		}
		fields = append(fields, f)
	}
	if inOrder {
		return true
	}
	slices.SortStableFunc(fields, func(a, b field) int { return bytes.Compare(a.key, b.key) })
	unique := true
	ordered := make([]byte, 0, len(raw)-4)
	for i, f := range fields {
		unique = unique && (i == 0 || !bytes.Equal(fields[i-1].key, f.key))
		ordered = append(ordered, raw[f.from:f.to]...)
	}
	copy(raw[4:], ordered)
	return unique
}

// Unique returns a table with only the first field of each key.
func (t Table) Unique() Table {
	var kept Table
	for i, f := range t {
		if !slices.ContainsFunc(t[:i], func(before Field) bool { return before.Key == f.Key }) {
			kept = append(kept, f)
		}
	}
	return kept
}
