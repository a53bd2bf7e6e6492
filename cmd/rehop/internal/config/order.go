package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
)

// OrderKey is where in a message the key is by which a flow orders messages, as in header.order-id or body.order.id. "": they are not
// ordered.
type OrderKey string

const (
	ofHeader = "header."
	ofBody   = "body."
)

// parseOrderKey checks an OrderKey.
func parseOrderKey(text string) (OrderKey, error) {
	name, isHeader := strings.CutPrefix(text, ofHeader)
	path, isBody := strings.CutPrefix(text, ofBody)
	switch {
	case isHeader && name != "", text == "key", text == "type":
	case isBody && path != "" && !strings.Contains("."+path+".", ".."):
	default:
		return "", errInvalid
	}
	return OrderKey(text), nil
}

// afterFail reads what happens when a message has failed for good.
func (r *reader) afterFail(to *rehop.AfterFail) func(*yaml.Node) {
	var word string
	read := choice(r, &word, "skip", "halt")
	return func(n *yaml.Node) {
		read(n)
		if word == "halt" {
			*to = rehop.Halt
		}
	}
}

// Of returns the key of a message; "" if it has none.
func (k OrderKey) Of(d *rehop.Delivery) string {
	switch text := string(k); {
	case text == "key":
		return d.Key
	case text == "type":
		return d.Type
	case strings.HasPrefix(text, ofHeader):
		value := d.Headers[strings.TrimPrefix(text, ofHeader)]
		if value == nil {
			return ""
		}
		return fmt.Sprint(value)
	default:
		return jsonAt(d.Body, strings.Split(strings.TrimPrefix(text, ofBody), "."))
	}
}

// jsonAt returns the value at a path of a JSON text, a number in all its digits; "" if there is none.
func jsonAt(body []byte, path []string) string {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return ""
	}
	for _, name := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return ""
			}
			value = v[i]
		default:
			return ""
		}
	}
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// Ordered is the subscriber of the flow, with its order.
func (f Flow) Ordered() rehop.Subscriber {
	s := f.Subscriber
	if f.OrderBy != "" {
		s.OrderBy = f.OrderBy.Of
	}
	return s
}
