package mgmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The largest bodies that are taken: of most requests, and of those that carry a message or definitions.
const (
	maxBody      = 1 << 20
	maxLargeBody = 10_000_000
)

// fields is the JSON object of a request. Fields that nobody knows are let pass, as tools send some.
type fields map[string]any

// fields reads the body of a request, which must have the keys.
func (c *call) fields(limit int64, required ...string) (fields, error) {
	content, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, badRequest("http_body_limit_exceeded")
	case err != nil:
		return nil, badRequest("the body could not be read")
	case !utf8.Valid(content):
		return nil, badRequest("not_json")
	}
	f := fields{}
	if len(content) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.UseNumber()
		if err := decoder.Decode(&f); err != nil || f == nil || decoder.More() {
			return nil, badRequest("not_json")
		}
	}
	var missing []string
	for _, key := range required {
		if _, ok := f[key]; !ok {
			missing = append(missing, "{key_missing,"+key+"}")
		}
	}
	if missing != nil {
		return nil, badRequest("[" + strings.Join(missing, ",") + "]")
	}
	return f, nil
}

// text returns a string, or what is the default.
func (f fields) text(key, otherwise string) (string, error) {
	switch v := f[key].(type) {
	case nil:
		return otherwise, nil
	case string:
		return v, nil
	}
	return "", badRequest([]any{"not_string", key})
}

// flag returns a boolean, which may be given as a string.
func (f fields) flag(key string) (bool, error) {
	switch v := f[key].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case string:
		switch v {
		case "true":
			return true, nil
		case "false", "":
			return false, nil
		}
	}
	return false, badRequest([]any{"not_boolean", f[key]})
}

// integer returns a whole number, which may be given as a string.
func (f fields) integer(key string, otherwise int) (int, error) {
	digits := ""
	switch v := f[key].(type) {
	case nil:
		return otherwise, nil
	case json.Number:
		digits = v.String()
	case string:
		digits = v
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, badRequest([]any{"not_integer", key})
	}
	return n, nil
}

// table returns a JSON object. RabbitMQ takes an empty array for an empty object.
func (f fields) table(key string) (map[string]any, error) {
	switch v := f[key].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case []any:
		if len(v) == 0 {
			return nil, nil
		}
	}
	return nil, badRequest([]any{"not_object", key})
}

// condition reads under which condition something is to be deleted. A value that nobody understands must not count as none.
func (c *call) condition(key string) (bool, error) {
	switch value := c.r.URL.Query().Get(key); value {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	default:
		return false, badRequest([]any{"not_boolean", value})
	}
}
