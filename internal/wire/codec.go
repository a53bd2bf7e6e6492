package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// MaxShort is the size of the longest short string.
const MaxShort = 255

// codec reads or writes values one after another, so that a method is described once for both
// directions. It keeps the first error. What it reads or writes afterwards is not used.
type codec struct {
	writing    bool
	buf        []byte // reading: what is left; writing: what was written
	longText   bool   // strings are long strings
	anyBytes   bool   // reading: short strings need not be UTF-8
	depth      int    // of nested tables and arrays
	entries    int    // of tables and arrays so far
	makeSigned bool   // reading: skipValue makes unsigned 64-bit integers signed, in place
	truncated  bool   // reading: the error is that the input ended, and not within a table
	err        *FrameError
	hideMethod bool // RabbitMQ does not report in which method the error is
}

func (c *codec) fail(code uint16, format string, args ...any) {
	if c.err == nil {
		c.err = &FrameError{Code: code, Text: fmt.Sprintf(format, args...)}
	}
	if !c.writing {
		c.buf = nil
	}
}

// take returns the next n bytes, which are part of the input.
func (c *codec) take(n uint32) ([]byte, bool) {
	if c.err != nil {
		return nil, false
	}
	if uint64(n) > uint64(len(c.buf)) {
		c.truncated = c.depth == 0
		c.fail(SyntaxError, "%d bytes are left where %d are announced", len(c.buf), n)
		return nil, false
	}
	taken := c.buf[:n:n]
	c.buf = c.buf[n:]
	return taken, true
}

// endOf returns the error of reading something that must use all of the input.
func (c *codec) endOf(what string) error {
	if len(c.buf) > 0 {
		c.fail(SyntaxError, "%d bytes follow the %s", len(c.buf), what)
	}
	if c.err != nil {
		return c.err
	}
	return nil
}

// writeError returns the error of writing.
func (c *codec) writeError(what string) error {
	if c.err != nil {
		return fmt.Errorf("write %s: %s", what, c.err.Text)
	}
	return nil
}

// zeros is what reads of integers return after an error.
var zeros [8]byte

// readFixed returns the n bytes of an integer.
func (c *codec) readFixed(n uint32) []byte {
	if b, ok := c.take(n); ok {
		return b
	}
	return zeros[:]
}

func (c *codec) readUint8() uint8   { return c.readFixed(1)[0] }
func (c *codec) readUint16() uint16 { return binary.BigEndian.Uint16(c.readFixed(2)) }
func (c *codec) readUint32() uint32 { return binary.BigEndian.Uint32(c.readFixed(4)) }
func (c *codec) readUint64() uint64 { return binary.BigEndian.Uint64(c.readFixed(8)) }

// readShort returns a short string as part of the input, or nil after an error.
func (c *codec) readShort() []byte {
	b, _ := c.take(uint32(c.readUint8()))
	return b
}

// readLong returns a long string, or the entries of a table or array, as part of the input.
func (c *codec) readLong() []byte {
	b, _ := c.take(c.readUint32())
	return b
}

func (c *codec) writeShort(s string) {
	if len(s) > MaxShort {
		c.fail(SyntaxError, "a short string has %d bytes, at most %d fit", len(s), MaxShort)
		return
	}
	c.buf = append(c.buf, byte(len(s)))
	c.buf = append(c.buf, s...)
}

func writeLong[S string | []byte](c *codec, s S) {
	if uint64(len(s)) > math.MaxUint32 {
		c.fail(SyntaxError, "a long string has %d bytes, at most %d fit", len(s), uint32(math.MaxUint32))
		return
	}
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(s)))
	c.buf = append(c.buf, s...)
}

// value reads into a variable, or writes it.
func (c *codec) value(pointer any) {
	if c.writing {
		c.write(pointer)
	} else {
		c.read(pointer)
	}
}

func (c *codec) read(pointer any) {
	switch v := pointer.(type) {
	case *uint8:
		*v = c.readUint8()
	case *uint16:
		*v = c.readUint16()
	case *uint32:
		*v = c.readUint32()
	case *uint64:
		*v = c.readUint64()
	case *string:
		*v = c.readText()
	case *[]byte:
		*v = append([]byte(nil), c.readLong()...)
	case *Table:
		*v = c.readTable()
	default: // to print the type would move every value to the heap
		panic("wire: a field has a type without encoding")
	}
}

func (c *codec) write(pointer any) {
	switch v := pointer.(type) {
	case *uint8:
		c.buf = append(c.buf, *v)
	case *uint16:
		c.buf = binary.BigEndian.AppendUint16(c.buf, *v)
	case *uint32:
		c.buf = binary.BigEndian.AppendUint32(c.buf, *v)
	case *uint64:
		c.buf = binary.BigEndian.AppendUint64(c.buf, *v)
	case *string:
		if c.longText {
			writeLong(c, *v)
		} else {
			c.writeShort(*v)
		}
	case *[]byte:
		writeLong(c, *v)
	case *Table:
		c.writeTable(*v)
	default:
		panic("wire: a field has a type without encoding")
	}
}

func (c *codec) readText() string {
	if c.longText {
		return string(c.readLong())
	}
	b := c.readShort()
	if !c.anyBytes && !utf8.Valid(b) {
		c.fail(FrameFault, "Malformed UTF-8 in shortstr")
		c.hideMethod = true
		return ""
	}
	return string(b)
}

// bits packs up to eight flags into an octet, the first into its lowest bit.
func (c *codec) bits(flags ...*bool) {
	if !c.writing {
		octet := c.readUint8()
		for i, f := range flags {
			*f = octet&(1<<i) != 0
		}
		return
	}
	var octet uint8
	for i, f := range flags {
		if *f {
			octet |= 1 << i
		}
	}
	c.buf = append(c.buf, octet)
}
