package exchange

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// RabbitMQ decodes field values to Erlang terms, compares headers by value (1 equals 1.0, whatever their types)
// and prints terms in its errors.

// equal compares as RabbitMQ compares a header with a binding's argument. Only within tables and arrays do types count.
func equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case string:
		switch b := b.(type) {
		case string:
			return a == b
		case []byte:
			return a == string(b)
		}
		return false
	case []byte:
		switch b := b.(type) {
		case string:
			return string(a) == b
		case []byte:
			return string(a) == string(b)
		}
		return false
	case wire.Decimal:
		b, ok := b.(wire.Decimal)
		return ok && a == b
	case wire.Table:
		switch b := b.(type) {
		case wire.Table:
			return equalTables(a, b)
		case wire.Array: // both are lists to RabbitMQ
			return len(a) == 0 && len(b) == 0
		}
		return false
	case wire.Array:
		switch b := b.(type) {
		case wire.Array:
			return equalArrays(a, b)
		case wire.Table:
			return len(a) == 0 && len(b) == 0
		}
		return false
	}
	return equalNumbers(a, b)
}

func equalTables(a, b wire.Table) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || typeName(a[i].Value) != typeName(b[i].Value) || !equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func equalArrays(a, b wire.Array) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if typeName(a[i]) != typeName(b[i]) || !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalNumbers(a, b any) bool {
	x, xIsInteger := integer(a)
	y, yIsInteger := integer(b)
	if xIsInteger && yIsInteger {
		return x == y
	}
	f, aIsFloat := float(a)
	g, bIsFloat := float(b)
	switch {
	case aIsFloat && bIsFloat:
		return f == g
	case xIsInteger && bIsFloat:
		return x.equals(g)
	case aIsFloat && yIsInteger:
		return y.equals(f)
	}
	return false
}

// whole is an integer of any field type: a timestamp exceeds int64.
type whole struct {
	negative  bool
	magnitude uint64
}

func signed(v int64) whole {
	if v < 0 {
		return whole{true, -uint64(v)}
	}
	return whole{false, uint64(v)}
}

// equals is exact: no integer is rounded to a float.
func (w whole) equals(f float64) bool {
	magnitude := math.Abs(f)
	return magnitude < 1<<64 && magnitude == math.Trunc(magnitude) && w == whole{f < 0, uint64(magnitude)}
}

func integer(v any) (whole, bool) {
	if i, ok := wire.Integer(v); ok {
		return signed(i), true
	}
	t, ok := v.(wire.Timestamp)
	return whole{false, uint64(t)}, ok
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// typeName is what RabbitMQ calls the type of a field value.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "void"
	case bool:
		return "bool"
	case int8:
		return "byte"
	case uint8:
		return "unsignedbyte"
	case int16:
		return "short"
	case uint16:
		return "unsignedshort"
	case int32:
		return "signedint"
	case uint32:
		return "unsignedint"
	case int64, uint64:
		return "long"
	case float32:
		return "float"
	case float64:
		return "double"
	case wire.Decimal:
		return "decimal"
	case string:
		return "longstr"
	case []byte:
		return "binary"
	case wire.Timestamp:
		return "timestamp"
	case wire.Table:
		return "table"
	case wire.Array:
		return "array"
	}
	return fmt.Sprintf("%T", v)
}

// term prints a field value as Erlang does, on one line.
func term(v any) string {
	switch v := v.(type) {
	case nil:
		return "undefined"
	case string:
		return binary(v)
	case []byte:
		return binary(string(v))
	case uint64: // RabbitMQ reads both 64-bit types as signed
		return strconv.FormatInt(int64(v), 10)
	case float32:
		return term(float64(v))
	case float64:
		digits := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(digits, ".") {
			digits += ".0"
		}
		return digits
	case wire.Decimal:
		return fmt.Sprintf("{%d,%d}", v.Scale, v.Value)
	case wire.Table:
		fields := make([]string, len(v))
		for i, f := range v {
			fields[i] = fmt.Sprintf("{%s,%s,%s}", binary(f.Key), typeName(f.Value), term(f.Value))
		}
		return "[" + strings.Join(fields, ",") + "]"
	case wire.Array:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = fmt.Sprintf("{%s,%s}", typeName(item), term(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return fmt.Sprint(v)
}

// binary prints bytes as a string where all of them are printable Latin-1, else as numbers.
func binary(bytes string) string {
	if bytes == "" {
		return "<<>>"
	}
	var quoted, numbers strings.Builder
	printable := true
	for i := range len(bytes) {
		c := bytes[i]
		fmt.Fprintf(&numbers, ",%d", c)
		if at := strings.IndexByte("\"\\\n\t\r\v\b\f\x1b", c); at >= 0 {
			quoted.WriteByte('\\')
			quoted.WriteByte("\"\\ntrvbfe"[at])
			continue
		}
		printable = printable && c >= ' ' && (c < 0x7f || c >= 0xa0)
		quoted.WriteByte(c)
	}
	if printable {
		return `<<"` + quoted.String() + `">>`
	}
	return "<<" + numbers.String()[1:] + ">>"
}
