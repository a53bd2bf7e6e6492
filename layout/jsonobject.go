package layout

import (
	"bytes"
	"encoding/json"
)

// jsonMember is a member of a JSON object, as it was written: a number that fits no Go type stays as it
// is.
type jsonMember struct {
	name  string
	key   []byte // with its quotes and escapes
	value []byte
}

// members are the members of a JSON object, in order. False: the body is not an object.
func members(body []byte) ([]jsonMember, bool) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(body) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if _, err := decoder.Token(); err != nil {
		return nil, false
	}
	var all []jsonMember
	for decoder.More() {
		before := decoder.InputOffset()
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		key := bytes.TrimLeft(body[before:decoder.InputOffset()], " \t\r\n,")
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, false
		}
		text, _ := name.(string)
		all = append(all, jsonMember{name: text, key: key, value: value})
	}
	return all, true
}

// member is the value of a member of the object in body. Of several with the name the last counts.
func member(body []byte, name string) (value []byte, ok bool) {
	all, _ := members(body)
	for _, m := range all {
		if m.name == name {
			value, ok = m.value, true
		}
	}
	return value, ok
}

// withMember is the object in body with a member set; nil if body is not an object.
func withMember(body []byte, name string, value []byte) []byte {
	all, ok := members(body)
	if !ok {
		return nil
	}
	var kept []jsonMember
	place := -1
	for _, m := range all {
		if m.name != name {
			kept = append(kept, m)
		} else if place < 0 {
			place = len(kept)
			kept = append(kept, jsonMember{name: name, key: m.key, value: value})
		}
	}
	if place < 0 {
		key, err := json.Marshal(name)
		if err != nil {
			return nil
		}
		kept = append(kept, jsonMember{name: name, key: key, value: value})
	}
	return object(kept)
}

// withoutMembers is the object in body without the members of these names; body itself if there are none.
func withoutMembers(body []byte, names ...string) []byte {
	all, _ := members(body)
	var kept []jsonMember
	for _, m := range all {
		drop := false
		for _, name := range names {
			drop = drop || m.name == name
		}
		if !drop {
			kept = append(kept, m)
		}
	}
	if len(kept) == len(all) {
		return body
	}
	return object(kept)
}

func object(all []jsonMember) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(m.key)
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes()
}
