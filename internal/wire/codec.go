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
// directions. It keeps its first fault, and what it reads or writes from then on is invalid.
type codec struct {
	writing  bool
	buf      []byte // reading: what is left; writing: what was written
	anyBytes bool   // reading: short strings need not be UTF-8
	depth    int    // of nested tables and arrays
	entries  int    // of tables and arrays so far
	signs    bool   // reading: skipValue makes unsigned integers of 64 bits signed, in place
	cut      bool   // reading: the fault is that the input ended, and not within a table
	fault    *FrameError
	// anonymous: RabbitMQ does not name the method with the fault
	anonymous bool
}

func (c *codec) fail(code uint16, format string, args ...any) {
	if c.fault == nil {
		c.fault = &FrameError{Code: code, Text: fmt.Sprintf(format, args...)}
	}
	if !c.writing {
		c.buf = nil
	}
}

// take returns the next n bytes, which are part of the input.
func (c *codec) take(n uint32) ([]byte, bool) {
	if c.fault != nil {
		return nil, false
	}
	if uint64(n) > uint64(len(c.buf)) {
		c.cut = c.depth == 0
		c.fail(SyntaxError, "%d bytes are left where %d are announced", len(c.buf), n)
		return nil, false
	}
	taken := c.buf[:n:n]
	c.buf = c.buf[n:]
	return taken, true
}

// readAll ends the reading of a thing that has to end where its bytes end.
func (c *codec) readAll(thing string) error {
	if len(c.buf) > 0 {
		c.fail(SyntaxError, "%d bytes follow the %s", len(c.buf), thing)
	}
	if c.fault != nil {
		return c.fault
	}
	return nil
}

func (c *codec) readUint8() uint8 {
	if b, ok := c.take(1); ok {
		return b[0]
	}
	return 0
}

func (c *codec) readUint16() uint16 {
	if b, ok := c.take(2); ok {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *codec) readUint32() uint32 {
	if b, ok := c.take(4); ok {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *codec) readUint64() uint64 {
	if b, ok := c.take(8); ok {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// readShort returns a short string as part of the input, nil after a fault.
func (c *codec) readShort() []byte {
	b, _ := c.take(uint32(c.readUint8()))
	return b
}

// readLong returns a long string, or what a table or array consists of, as part of the input.
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

func (c *codec) writeLength(n int) {
	if uint64(n) > math.MaxUint32 {
		c.fail(SyntaxError, "a long string has %d bytes, at most %d fit", n, uint32(math.MaxUint32))
		return
	}
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n))
}

func (c *codec) octet(v *uint8) {
	if c.writing {
		c.buf = append(c.buf, *v)
	} else {
		*v = c.readUint8()
	}
}

func (c *codec) short(v *uint16) {
	if c.writing {
		c.buf = binary.BigEndian.AppendUint16(c.buf, *v)
	} else {
		*v = c.readUint16()
	}
}

func (c *codec) long(v *uint32) {
	if c.writing {
		c.buf = binary.BigEndian.AppendUint32(c.buf, *v)
	} else {
		*v = c.readUint32()
	}
}

func (c *codec) longLong(v *uint64) {
	if c.writing {
		c.buf = binary.BigEndian.AppendUint64(c.buf, *v)
	} else {
		*v = c.readUint64()
	}
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

func (c *codec) shortString(s *string) {
	if c.writing {
		c.writeShort(*s)
		return
	}
	b := c.readShort()
	if !c.anyBytes && !utf8.Valid(b) {
		c.fail(FrameFault, "Malformed UTF-8 in shortstr")
		c.anonymous = true
		return
	}
	*s = string(b)
}

func (c *codec) longString(s *string) {
	if c.writing {
		c.writeLength(len(*s))
		c.buf = append(c.buf, *s...)
	} else {
		*s = string(c.readLong())
	}
}

func (c *codec) longBytes(b *[]byte) {
	if c.writing {
		c.writeLength(len(*b))
		c.buf = append(c.buf, *b...)
	} else {
		*b = append([]byte(nil), c.readLong()...)
	}
}

func (c *codec) table(t *Table) {
	if c.writing {
		c.writeTable(*t)
	} else {
		*t = c.readTable()
	}
}

// The reserved arguments are written as zero and read for their length alone.

func (c *codec) reservedShort() {
	var v uint16
	c.short(&v)
}

func (c *codec) reservedBit() {
	var v bool
	c.bits(&v)
}

func (c *codec) reservedShortString() {
	var s string
	c.shortString(&s)
}

func (c *codec) reservedLongString() {
	var s string
	c.longString(&s)
}
