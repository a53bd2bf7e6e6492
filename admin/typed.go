package admin

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// JSON has fewer types than AMQP. Strings, booleans, null, arrays and tables are written as they are,
// and a whole number is an int64; every other value becomes {"$type": …, "$value": "…"}.
const (
	typeField  = "$type"
	valueField = "$value"
)

func plain(headers map[string]any) map[string]any {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]any, len(headers))
	for name, value := range headers {
		out[name] = plainValue(value)
	}
	return out
}

func plainValue(v any) any {
	wrap := func(kind, text string) any { return map[string]any{typeField: kind, valueField: text} }
	switch v := v.(type) {
	case nil, bool, int64:
		return v
	case string:
		if !utf8.ValidString(v) {
			return wrap("string", base64.StdEncoding.EncodeToString([]byte(v)))
		}
		return v
	case map[string]any:
		return plain(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainValue(e)
		}
		return out
	case []byte:
		return wrap("bytes", base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return wrap("time", strconv.FormatInt(v.Unix(), 10))
	}
	return wrap(fmt.Sprintf("%T", v), fmt.Sprint(v))
}

func typed(headers map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(headers))
	for name, value := range headers {
		v, err := typedValue(value)
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
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
		text, isText := v[valueField].(string)
		if isKind && isText && len(v) == 2 {
			return unwrap(kind, text)
		}
		return typed(v)
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
