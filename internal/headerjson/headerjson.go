// Package headerjson writes the headers of a message as JSON, and reads them back with their types.
//
// JSON has fewer types than AMQP. Strings, booleans, null, arrays and tables are written unchanged, and
// a whole number is an int64; every other value becomes {"$type": …, "$value": "…"}. A name that is not
// in UTF-8 becomes "$name:" and its base64.
package headerjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	typeField  = "$type"
	valueField = "$value"
)

// Marshal writes headers, and fails on values that AMQP has no type for.
func Marshal(headers map[string]any) ([]byte, error) {
	if err := check(headers, 0); err != nil {
		return nil, fmt.Errorf("header %w", err)
	}
	return json.Marshal(Plain(headers))
}

// Unmarshal reads what Marshal has written.
func Unmarshal(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // an int64 does not fit into a float64
	var plain map[string]any
	if err := decoder.Decode(&plain); err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	return Typed(plain)
}

// maxDepth is how deep tables may be nested: deeper than amqp091-go reads, so that every message that was read can be written. One that contains itself
// has no end.
const maxDepth = 40

func check(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, string, []byte, []string, time.Time, int, int8, int16, int32, int64, uint8, uint16, uint32, float32, float64:
		return nil
	case uint:
		return check(uint64(v), depth)
	case uint64:
		if v > math.MaxInt64 {
			return fmt.Errorf("%d is larger than AMQP can carry", v)
		}
		return nil
	case []any:
		for _, e := range v {
			if err := check(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for name, e := range v {
			if err := check(e, depth+1); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
		return nil
	}
	return fmt.Errorf("AMQP has no type for a %T", v)
}

// Plain turns headers into what package json writes.
func Plain(headers map[string]any) map[string]any {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]any, len(headers))
	for name, value := range headers {
		out[plainName(name)] = plainValue(value)
	}
	return out
}

// nameField begins a name that JSON could not have, or that begins like this itself; base64 follows.
const nameField = "$name:"

func plainName(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, nameField) {
		return name
	}
	return nameField + base64.StdEncoding.EncodeToString([]byte(name))
}

func typedName(plain string) (string, error) {
	encoded, found := strings.CutPrefix(plain, nameField)
	if !found {
		return plain, nil
	}
	name, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("header %q: base64 must follow %q: %w", plain, nameField, err)
	}
	return string(name), nil
}

func plainValue(v any) any {
	wrap := func(kind, text string) any { return map[string]any{typeField: kind, valueField: text} }
	switch v := v.(type) {
	case nil, bool, int64:
		return v
	case int, uint, uint64: // sent as an int64
		return json.Number(fmt.Sprint(v))
	case string:
		if !utf8.ValidString(v) {
			return wrap("string", base64.StdEncoding.EncodeToString([]byte(v)))
		}
		return v
	case map[string]any:
		if _, likeOurs := v[typeField]; likeOurs {
			return map[string]any{typeField: "table", valueField: Plain(v)}
		}
		if len(v) == 0 {
			return map[string]any{}
		}
		return Plain(v)
	case []any:
		return plainValues(v)
	case []string:
		return plainValues(v)
	case []byte:
		return wrap("bytes", base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return wrap("time", strconv.FormatInt(v.Unix(), 10))
	}
	return wrap(fmt.Sprintf("%T", v), fmt.Sprint(v))
}

func plainValues[T any](list []T) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = plainValue(e)
	}
	return out
}

// Typed turns what package json has read, with UseNumber, into headers.
func Typed(plain map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(plain))
	for name, value := range plain {
		v, err := typedValue(value)
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		if name, err = typedName(name); err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

func typedValue(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return nil, fmt.Errorf("%s is not a whole number; write a fraction as a float64", v)
		}
		return n, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			t, err := typedValue(e)
			if err != nil {
				return nil, err
			}
			out[i] = t
		}
		return out, nil
	case map[string]any:
		kind, isKind := v[typeField].(string)
		if !isKind || len(v) != 2 {
			return Typed(v)
		}
		switch value := v[valueField].(type) {
		case string:
			return unwrap(kind, value)
		case map[string]any:
			if kind == "table" {
				return Typed(value)
			}
		}
		return Typed(v)
	}
	return v, nil
}

func unwrap(kind, text string) (any, error) {
	bits := map[string]int{"int8": 8, "int16": 16, "int32": 32, "int": 64, "time": 64, "uint8": 8, "uint16": 16, "uint32": 32, "float32": 32, "float64": 64}[kind]
	switch kind {
	case "string":
		b, err := base64.StdEncoding.DecodeString(text)
		return string(b), err
	case "bytes":
		return base64.StdEncoding.DecodeString(text)
	case "int8", "int16", "int32", "int", "time":
		n, err := strconv.ParseInt(text, 10, bits)
		switch kind {
		case "int8":
			return int8(n), err
		case "int16":
			return int16(n), err
		case "int32":
			return int32(n), err
		case "time":
			return time.Unix(n, 0), err
		}
		return n, err
	case "uint8", "uint16", "uint32":
		n, err := strconv.ParseUint(text, 10, bits)
		switch kind {
		case "uint8":
			return uint8(n), err
		case "uint16":
			return uint16(n), err
		}
		return uint32(n), err
	case "float32", "float64":
		f, err := strconv.ParseFloat(text, bits)
		if kind == "float32" {
			return float32(f), err
		}
		return f, err
	}
	return nil, fmt.Errorf("cannot read a value of type %q", kind)
}
