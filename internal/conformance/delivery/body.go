package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

const bodySize = 256

// textBody ends with the hash of what goes before.
func textBody(id string, random *rand.Rand) []byte {
	body := append(make([]byte, 0, bodySize), id...)
	body = append(body, ' ')
	body = letters(body, bodySize-2*sha256.Size, random)
	return hex.AppendEncode(body, hash(body))
}

// objectBody is a JSON object that carries the hash of two of its members. The others are such as a
// program that reads and writes it again may spoil: a number that no float holds, escapes, blanks.
func objectBody(id string, random *rand.Rand) []byte {
	data := letters(nil, bodySize-2*sha256.Size, random)
	return fmt.Appendf(nil, `{"id": %q, "data":%q,`+"\n"+` "amount": 1234567890123456789.10, "note":"\u00fc \/ \"", "lines": [ 1,{"x" :null}], "hash":%q}`,
		id, data, hex.EncodeToString(hash([]byte(id), data)))
}

func letters(to []byte, size int, random *rand.Rand) []byte {
	for len(to) < size {
		to = append(to, "0123456789abcdefghijklmnopqrstuvwxyz"[random.IntN(36)])
	}
	return to
}

func hash(parts ...[]byte) []byte {
	sum := sha256.Sum256(slices.Concat(parts...))
	return sum[:]
}

// intact reports whether a body is as textBody made it.
func intact(body []byte) bool {
	cut := len(body) - 2*sha256.Size
	return cut >= 0 && hex.EncodeToString(hash(body[:cut])) == string(body[cut:])
}

// Digest stands for a body in events. It is 0 for a body that does not carry its own hash.
func Digest(body []byte) uint64 {
	if !intact(body) {
		return 0
	}
	return digest(body)
}

// The members that a layout may add to a body.
const (
	retryCount = "retry_count"
	deadReason = "dead_reason"
)

// digestObject is Digest for what objectBody made, without what a layout has added.
func digestObject(body []byte) uint64 {
	members, ok := object(body)
	if !ok || hex.EncodeToString(hash([]byte(text(members["id"])), []byte(text(members["data"])))) != text(members["hash"]) {
		return 0
	}
	delete(members, retryCount)
	delete(members, deadReason)
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all = fmt.Appendf(all, "%q:%s\n", name, members[name])
	}
	return digest(all)
}

// object is a JSON object with its members as they are written.
func object(body []byte) (members map[string]json.RawMessage, ok bool) {
	return members, json.Unmarshal(body, &members) == nil
}

// text is a JSON string, "" if it is none.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
