package node

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// death is what the x-death header says of one death.
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

// noteDeath returns headers with one death more, the newest first, and that list. Deaths in the same queue for the same
// reason are one entry with a count. ours says whether it is this broker that has noted the deaths that are there.
func noteDeath(c Compat, headers wire.Table, ours bool, d death) (wire.Table, wire.Array) {
	old, first := wire.Array(nil), true
	if v, ok := headers.Get("x-death"); ok && (ours || c.readsForeignDeaths()) {
		old, _ = v.(wire.Array)
		first = false
	}
	if c.turnsDeaths() {
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
			if n, ok := t.Get("count"); ok {
				if i, ok := wire.Integer(n); ok {
					count = i + 1
				}
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
	if c.notesLastDeath() {
		headers = headers.With("x-last-death-exchange", d.exchange).With("x-last-death-queue", d.queue).With("x-last-death-reason", string(d.reason))
	}
	return sorted(headers), deaths
}

// withHeader sets a header. As in RabbitMQ, all headers are in the order of their names then.
func withHeader(headers wire.Table, name string, value any) wire.Table {
	return sorted(headers.With(name, value))
}

func sorted(headers wire.Table) wire.Table {
	slices.SortStableFunc(headers, func(a, b wire.Field) int { return strings.Compare(a.Key, b.Key) })
	return headers
}

// Flags that stand for no property say something of properties that clients never see, and cannot set.
const (
	BlindFlag = 1 << iota // there is a BCC header, which is for the broker alone
	DeathFlag             // the deaths were noted by this broker and not made up by a client
	OwnFlags  = BlindFlag | DeathFlag
)

func SetFlag(properties []byte, flag byte) []byte {
	properties[1] |= flag
	return properties
}

func hasOurDeaths(properties []byte) bool { return properties[1]&DeathFlag != 0 }

// WithoutFlags returns properties as a client is to see them.
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

// isCycle reports whether a message came from a queue before without having been rejected since: it would go round for ever.
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

func TextField(t wire.Table, key string) string {
	v, _ := t.Get(key)
	s, _ := v.(string)
	return s
}

// KeyList returns the strings of a header that holds a list, such as CC.
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

// MayHoldRoutes is a quick look whether raw headers could have CC or BCC.
func MayHoldRoutes(raw []byte) bool { return bytes.Contains(raw, []byte("CC")) }
