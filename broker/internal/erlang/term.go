// Package erlang prints values as RabbitMQ does in its reply texts.
package erlang

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// Type returns RabbitMQ's name for the type of a value in a table.
func Type(v any) string {
	switch v.(type) {
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
	return "void"
}

// Term prints a value of a table or of a JSON document on one line. RabbitMQ considers two values of a table equal if
// they are printed the same.
func Term(v any) string {
	if i, ok := wire.Integer(v); ok {
		return strconv.FormatInt(i, 10)
	}
	switch v := v.(type) {
	case nil:
		return "undefined"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return Binary(v)
	case []byte:
		return Binary(string(v))
	case float32:
		return float(float64(v))
	case float64:
		return float(v)
	case wire.Timestamp:
		return strconv.FormatUint(uint64(v), 10)
	case wire.Decimal:
		return fmt.Sprintf("{%d,%d}", v.Scale, v.Value)
	case wire.Table:
		return List(v, func(f wire.Field) string {
			return fmt.Sprintf("{%s,%s,%s}", Binary(f.Key), Type(f.Value), Term(f.Value))
		})
	case wire.Array:
		return List(v, func(item any) string { return fmt.Sprintf("{%s,%s}", Type(item), Term(item)) })
	case []any:
		return List(v, Term)
	case map[string]any:
		return "#{" + commas(slices.Sorted(maps.Keys(v)), func(key string) string { return Binary(key) + " => " + Term(v[key]) }) + "}"
	}
	return fmt.Sprint(v)
}

// List prints a list of items.
func List[T any](items []T, print func(T) string) string { return "[" + commas(items, print) + "]" }

func commas[T any](items []T, print func(T) string) string {
	printed := make([]string, len(items))
	for i, item := range items {
		printed[i] = print(item)
	}
	return strings.Join(printed, ",")
}

// Binary prints bytes as text if all of them are printable Latin-1, otherwise as numbers.
func Binary(s string) string {
	if s == "" {
		return "<<>>"
	}
	if printable(s) {
		return "<<" + String(s) + ">>"
	}
	return "<<" + numbers(s) + ">>"
}

// String prints a text that RabbitMQ has created itself, which is a list and not a binary.
func String(s string) string {
	if !printable(s) {
		return "[" + numbers(s) + "]"
	}
	return `"` + escapes.Replace(s) + `"`
}

var escapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`, "\b", `\b`, "\f", `\f`, "\x1b", `\e`)

func numbers(s string) string {
	return commas([]byte(s), func(b byte) string { return strconv.Itoa(int(b)) })
}

// printable reports whether Erlang prints bytes as Latin-1 text.
func printable(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(b byte) bool {
		return !(b >= ' ' && b <= '~' || b >= 0xa0 || b >= '\b' && b <= '\r' || b == '\x1b')
	})
}

// float uses the shorter of both notations, each with a digit after the point.
func float(f float64) string {
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	power, _ := strconv.Atoi(exponent)
	if scientific := digits + "e" + strconv.Itoa(power); len(scientific) < len(plain) {
		return scientific
	}
	return plain
}
