package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// Limits of a table, read or written. RabbitMQ has none. Without them, a peer could exhaust the stack
// by nesting, and memory by entries of one byte.
const (
	MaxTableDepth   = 32   // tables and arrays within each other
	MaxTableEntries = 4096 // fields and array items in all
)

// Table is a field table, in the order in which it was sent, with duplicate keys.
//
// The type of a value is the type on the wire:
//
//	t bool    b int8     B uint8   s int16   u uint16   I int32   i uint32   l int64   L uint64
//	f float32 d float64  D Decimal S string  x []byte   T Timestamp  F Table  A Array  V nil
type Table []Field

// Field is an entry of a Table.
type Field struct {
	Key   string
	Value any
}

// Array is a field array. Its items have the same types as the values of a Table.
type Array []any

// Decimal is Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value uint32
}

// Timestamp is a Unix time in seconds.
type Timestamp uint64

// ParseTable reads a table that begins with its length and takes all of raw.
func ParseTable(raw []byte) (Table, error) {
	c := codec{buf: raw}
	t := c.readTable()
	if err := c.endOf("table"); err != nil {
		return nil, err
	}
	return t, nil
}

// AppendTable appends the length of the table and the table. It adds nothing when Check returns an error.
func AppendTable(dst []byte, t Table) []byte {
	c := codec{writing: true, buf: dst}
	c.writeTable(t)
	if c.err != nil {
		return dst
	}
	return c.buf
}

// Check returns why the table cannot be written: a key has more than 255 bytes, a Go type has no type
// on the wire, a float is NaN or infinite, or a limit is exceeded.
func (t Table) Check() error {
	c := codec{writing: true}
	c.writeTable(t)
	return c.writeError("table")
}

// Weight returns about how many bytes the table takes in memory.
func (t Table) Weight() int {
	n := 0
	for _, f := range t {
		n += fieldWeight + len(f.Key) + valueWeight(f.Value)
	}
	return n
}

const (
	fieldWeight = 48 // of a field, without its key and value
	itemWeight  = 24 // of an item of an array, without its value
)

func valueWeight(value any) int {
	switch v := value.(type) {
	case string:
		return 16 + len(v)
	case []byte:
		return 24 + len(v)
	case Table:
		return 24 + v.Weight()
	case Array:
		n := 24
		for _, item := range v {
			n += itemWeight + valueWeight(item)
		}
		return n
	}
	return 8
}

// Get returns the value of the first field with that key.
func (t Table) Get(key string) (any, bool) {
	for _, f := range t {
		if f.Key == key {
			return f.Value, true
		}
	}
	return nil, false
}

// With returns a copy in which the key has this value: in the place of its first field, or at the end.
func (t Table) With(key string, value any) Table {
	changed := t.Without(key)
	at := slices.IndexFunc(t, func(f Field) bool { return f.Key == key })
	if at < 0 {
		at = len(changed)
	}
	return slices.Insert(changed, at, Field{key, value})
}

// Without returns a copy without the key.
func (t Table) Without(key string) Table {
	return slices.DeleteFunc(slices.Clone(t), func(f Field) bool { return f.Key == key })
}

// Equal reports whether both have the same values of the same types for the same keys. The order of
// the keys does not matter.
func (t Table) Equal(u Table) bool {
	return slices.EqualFunc(t.Sorted(), u.Sorted(), func(a, b Field) bool {
		return a.Key == b.Key && equalValues(a.Value, b.Value)
	})
}

// Sorted returns the fields in the order of their keys. Fields with the same key keep their order. If
// nothing changes, it returns the table itself.
func (t Table) Sorted() Table {
	byKey := func(a, b Field) int { return strings.Compare(a.Key, b.Key) }
	if slices.IsSortedFunc(t, byKey) {
		return t
	}
	t = slices.Clone(t)
	slices.SortStableFunc(t, byKey)
	return t
}

func equalValues(a, b any) bool {
	switch a := a.(type) {
	case Table:
		b, ok := b.(Table)
		return ok && a.Equal(b)
	case Array:
		b, ok := b.(Array)
		return ok && slices.EqualFunc(a, b, equalValues)
	case []byte:
		b, ok := b.([]byte)
		return ok && slices.Equal(a, b)
	}
	switch b.(type) {
	case Table, Array, []byte:
		return false
	}
	return a == b
}

// Integer returns the value of any integer type as RabbitMQ reads it: L is signed.
func Integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), true
	}
	return 0, false
}

// readNested calls read for each entry of a table or array.
func (c *codec) readNested(read func()) {
	entries := c.readLong()
	following := c.buf
	c.buf = entries
	c.enter()
	for len(c.buf) > 0 {
		c.count()
		read()
	}
	c.depth--
	if c.err == nil {
		c.buf = following
	}
}

func (c *codec) enter() {
	if c.depth++; c.depth > MaxTableDepth {
		c.fail(SyntaxError, "tables are nested more than %d deep", MaxTableDepth)
	}
}

func (c *codec) count() {
	if c.entries++; c.entries > MaxTableEntries {
		c.fail(SyntaxError, "a table has more than %d entries", MaxTableEntries)
	}
}

func (c *codec) readTable() Table {
	var t Table
	c.readNested(func() {
		key := string(c.readShort())
		t = append(t, Field{key, c.readValue()})
	})
	return t
}

func (c *codec) readValue() any {
	switch tag := c.readUint8(); tag {
	case 't':
		return c.readUint8() != 0
	case 'b':
		return int8(c.readUint8())
	case 'B':
		return c.readUint8()
	case 's':
		return int16(c.readUint16())
	case 'u':
		return c.readUint16()
	case 'I':
		return int32(c.readUint32())
	case 'i':
		return c.readUint32()
	case 'l':
		return int64(c.readUint64())
	case 'L':
		return c.readUint64()
	case 'f':
		return float32(c.finite(float64(math.Float32frombits(c.readUint32()))))
	case 'd':
		return c.finite(math.Float64frombits(c.readUint64()))
	case 'D':
		return Decimal{c.readUint8(), c.readUint32()}
	case 'S':
		return string(c.readLong())
	case 'x':
		return append([]byte(nil), c.readLong()...)
	case 'T':
		return Timestamp(c.readUint64())
	case 'F':
		return c.readTable()
	case 'A':
		var a Array
		c.readNested(func() { a = append(a, c.readValue()) })
		return a
	case 'V':
		return nil
	default:
		c.fail(SyntaxError, "a table has a field of unknown type %d", tag)
		return nil
	}
}

// skipTable checks what readTable checks, and keeps nothing.
func (c *codec) skipTable() {
	c.readNested(func() {
		c.readShort()
		c.skipValue()
	})
}

func (c *codec) skipValue() {
	at := c.buf
	switch tag := c.readUint8(); tag {
	case 't', 'b', 'B':
		c.take(1)
	case 's', 'u':
		c.take(2)
	case 'I', 'i':
		c.take(4)
	case 'l', 'L', 'T':
		if tag == 'L' && c.makeSigned {
			at[0] = 'l'
		}
		c.take(8)
	case 'f':
		c.finite(float64(math.Float32frombits(c.readUint32())))
	case 'd':
		c.finite(math.Float64frombits(c.readUint64()))
	case 'D':
		c.take(5)
	case 'S', 'x':
		c.readLong()
	case 'F':
		c.skipTable()
	case 'A':
		c.readNested(c.skipValue)
	case 'V':
	default:
		c.fail(SyntaxError, "a table has a field of unknown type %d", tag)
	}
}

// finite rejects what RabbitMQ cannot represent.
func (c *codec) finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		c.fail(SyntaxError, "a table has a float that is not a finite number")
		return 0
	}
	return v
}

func (c *codec) writeTable(t Table) {
	c.writeNested(len(t), func(i int) {
		c.writeShort(t[i].Key)
		c.writeValue(t[i].Value)
	})
}

// writeNested writes the length of n entries in bytes, and the entries.
func (c *codec) writeNested(n int, write func(i int)) {
	start := len(c.buf)
	c.buf = append(c.buf, 0, 0, 0, 0)
	c.enter()
	for i := 0; i < n && c.err == nil; i++ {
		c.count()
		write(i)
	}
	c.depth--
	size := uint64(len(c.buf) - start - 4)
	if size > math.MaxUint32 {
		c.fail(SyntaxError, "a table has %d bytes, at most %d fit", size, uint32(math.MaxUint32))
		return
	}
	binary.BigEndian.PutUint32(c.buf[start:], uint32(size))
}

func (c *codec) writeValue(value any) {
	switch v := value.(type) {
	case bool:
		c.buf = append(c.buf, 't')
		c.bits(&v)
	case int8:
		c.buf = append(c.buf, 'b', byte(v))
	case uint8:
		c.buf = append(c.buf, 'B', v)
	case int16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, 's'), uint16(v))
	case uint16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, 'u'), v)
	case int32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'I'), uint32(v))
	case uint32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'i'), v)
	case int64:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'l'), uint64(v))
	case uint64:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'L'), v)
	case float32:
		c.finite(float64(v))
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'f'), math.Float32bits(v))
	case float64:
		c.finite(v)
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'd'), math.Float64bits(v))
	case Decimal:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'D', v.Scale), v.Value)
	case string:
		c.buf = append(c.buf, 'S')
		writeLong(c, v)
	case []byte:
		c.buf = append(c.buf, 'x')
		writeLong(c, v)
	case Timestamp:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'T'), uint64(v))
	case Table:
		c.buf = append(c.buf, 'F')
		c.writeTable(v)
	case Array:
		c.buf = append(c.buf, 'A')
		c.writeNested(len(v), func(i int) { c.writeValue(v[i]) })
	case nil:
		c.buf = append(c.buf, 'V')
	default:
		c.fail(SyntaxError, "a value of type %T has no type on the wire", value)
	}
}
