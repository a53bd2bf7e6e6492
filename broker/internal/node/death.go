package node

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// death is an entry of the x-death header.
type death struct {
	queue      string
	reason     queue.Reason
	exchange   string
	keys       []string
	expiration string
	time       time.Time
}

func (d death) table(c Compat, count int64) wire.Table {
	keys := make(wire.Array, len(d.keys))
	for i, key := range d.keys {
		keys[i] = key
	}
	t := wire.Table{
		{Key: "count", Value: count},
		{Key: "reason", Value: string(d.reason)},
		{Key: "queue", Value: d.queue},
		{Key: "time", Value: wire.Timestamp(d.time.Unix())},
		{Key: "exchange", Value: d.exchange},
		{Key: "routing-keys", Value: keys},
	}
	if d.expiration == "" {
		return t
	}
	expiration := wire.Field{Key: "original-expiration", Value: d.expiration}
	if c.sortsDeaths() {
		return append(t, expiration)
	}
	return slices.Insert(t, 0, expiration)
}

// addDeath returns headers with one more death, and the list of deaths, newest first. Deaths in the same queue for the
// same reason are one entry with a count. ours is whether this broker has added the deaths that are there.
func addDeath(c Compat, headers wire.Table, ours bool, d death) (wire.Table, wire.Array) {
	old, first := wire.Array(nil), true
	if v, ok := headers.Get("x-death"); ok && (ours || c.trustsClientDeaths()) {
		old, _ = v.(wire.Array)
		first = false
	}
	if c.reversesDeaths() {
		old = slices.Clone(old)
		slices.Reverse(old)
	}
	count := int64(1)
	deaths := make(wire.Array, 1, len(old)+1)
	entry := d.table(c, 1)
	if len(old) > 0 && c.sortsDeaths() {
		entry = sorted(entry)
	}
	for _, e := range old {
		t, ok := e.(wire.Table)
		if ok && TextField(t, "queue") == d.queue && TextField(t, "reason") == string(d.reason) {
			if n, ok := integerArgument(t, "count"); ok {
				count = n + 1
			}
			if entry = t.With("count", count); c.sortsDeaths() {
				entry = sorted(entry)
			}
			continue
		}
		deaths = append(deaths, e)
	}
	deaths[0] = entry
	headers = withHeader(headers, "x-death", deaths)
	if first {
		headers = headers.With("x-first-death-exchange", d.exchange).With("x-first-death-queue", d.queue).With("x-first-death-reason", string(d.reason))
	}
	if c.addsLastDeath() {
		headers = headers.With("x-last-death-exchange", d.exchange).With("x-last-death-queue", d.queue).With("x-last-death-reason", string(d.reason))
	}
	return sorted(headers), deaths
}

// withHeader sets a header and sorts all headers by name, as RabbitMQ does.
func withHeader(headers wire.Table, name string, value any) wire.Table {
	return sorted(headers.With(name, value))
}

func sorted(headers wire.Table) wire.Table {
	slices.SortStableFunc(headers, func(a, b wire.Field) int { return strings.Compare(a.Key, b.Key) })
	return headers
}

// Flags of the broker in the raw properties, in bits that stand for no property. Clients never see them and cannot set them.
const (
	BlindFlag = 1 << iota // there is a BCC header, which clients must not see
	DeathFlag             // the deaths were added by this broker, not by a client
	OwnFlags  = BlindFlag | DeathFlag
)

// SetFlag sets flags of the broker.
func SetFlag(properties []byte, flag byte) []byte {
	properties[1] |= flag
	return properties
}

func hasOurDeaths(properties []byte) bool { return properties[1]&DeathFlag != 0 }

// WithoutFlags returns properties as a client sees them.
func WithoutFlags(properties []byte) []byte {
	if properties[1]&OwnFlags == 0 {
		return properties
	}
	if properties[1]&BlindFlag != 0 {
		if p, err := wire.ParseProperties(properties); err == nil {
			p.Headers = p.Headers.Without("BCC")
			return p.Append(nil)
		}
	}
	plain := slices.Clone(properties)
	plain[1] &^= OwnFlags
	return plain
}

// isCycle reports whether a message was in a queue before and was not rejected since: it would cycle forever.
func isCycle(deaths wire.Array, target string) bool {
	for _, e := range deaths {
		t, _ := e.(wire.Table)
		if TextField(t, "reason") == string(queue.Rejected) {
			return false
		}
		if TextField(t, "queue") == target {
			return true
		}
	}
	return false
}

// TextField returns a string in a table, or "".
func TextField(t wire.Table, key string) string {
	v, _ := t.Get(key)
	s, _ := v.(string)
	return s
}

// KeyList returns the strings in a header that is a list, such as CC.
func KeyList(headers wire.Table, name string) (keys []string) {
	v, _ := headers.Get(name)
	list, _ := v.(wire.Array)
	for _, e := range list {
		if s, ok := e.(string); ok {
			keys = append(keys, s)
		}
	}
	return keys
}

// MayHoldRoutes is a quick check whether raw headers could have CC or BCC.
func MayHoldRoutes(raw []byte) bool { return bytes.Contains(raw, []byte("CC")) }
