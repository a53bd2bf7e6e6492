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

// The largest request bodies: of most requests, and of those with a message or definitions.
const (
	maxBody      = 1 << 20
	maxLargeBody = 10_000_000
)

// fields is a JSON object: the body of a request, or an object in it. Its methods read one field each. For a field of
// the wrong type they return a zero value and keep the error in err, which has the first one. So a handler reads all
// fields and then checks err once. Unknown fields are ignored, because tools send some.
type fields struct {
	values map[string]any
	err    error
}

// fields reads the body of a request, which must have the required fields.
func (c *call) fields(limit int64, required ...string) *fields {
	f := &fields{}
	c.body = f
	content, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		f.fail("http_body_limit_exceeded")
	case err != nil:
		f.fail("the body could not be read")
	case !utf8.Valid(content):
		f.fail("not_json")
	case len(content) > 0:
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.UseNumber()
		if err := decoder.Decode(&f.values); err != nil || f.values == nil || decoder.More() {
			f.fail("not_json")
		}
	}
	var missing []string
	for _, key := range required {
		if _, ok := f.values[key]; !ok {
			missing = append(missing, "{key_missing,"+key+"}")
		}
	}
	if missing != nil {
		f.fail("[" + strings.Join(missing, ",") + "]")
	}
	return f
}

// query returns the parameters of the query as fields.
func (c *call) query() *fields {
	f := &fields{values: make(map[string]any)}
	for key, values := range c.r.URL.Query() {
		f.values[key] = values[0]
	}
	return f
}

// fail keeps why the request is refused, unless there is an error already.
func (f *fields) fail(reason any) { f.failWith(badRequest(reason)) }

func (f *fields) failWith(err error) {
	if f.err == nil {
		f.err = err
	}
}

// text returns a string, or the default if the field is missing.
func (f *fields) text(key, otherwise string) string {
	switch v := f.values[key].(type) {
	case nil:
		return otherwise
	case string:
		return v
	}
	f.fail([]any{"not_string", key})
	return ""
}

// name returns the name in a definition, which must have one.
func (f *fields) name(what string) string {
	name, _ := f.values["name"].(string)
	if name == "" {
		f.fail(what + " needs a name")
	}
	return name
}

// flag returns a boolean, which may be a string.
func (f *fields) flag(key string) bool {
	switch v := f.values[key]; v {
	case true, "true":
		return true
	case nil, false, "false", "":
	default:
		f.fail([]any{"not_boolean", v})
	}
	return false
}

// integer returns a whole number, which may be a string, or the default if the field is missing.
func (f *fields) integer(key string, otherwise int) int {
	digits := ""
	switch v := f.values[key].(type) {
	case nil:
		return otherwise
	case json.Number:
		digits = v.String()
	case string:
		digits = v
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		f.fail([]any{"not_integer", key})
	}
	return n
}

// table returns a JSON object. Like RabbitMQ, it reads an empty array as an empty object.
func (f *fields) table(key string) map[string]any {
	switch v := f.values[key].(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	case []any:
		if len(v) == 0 {
			return nil
		}
	}
	f.fail([]any{"not_object", key})
	return nil
}
