package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/sqltext"
)

// The states of a row, as they are in the table.
const (
	stateReady   = 0
	stateOrdered = 1 // ready, with an order key
	stateDelayed = 2 // until due
	stateAside   = 3 // with its error
	stateKept    = 4 // published, until due
)

// shards is the number of parts that relays share. The migrations have it, too.
const shards = 16

type row struct {
	id        int64
	nonce     int64 // unique
	state     int
	shard     int
	delay, at int64 // of a new row: microseconds from now, and since 1970
	due       int64
	attempts  int
	held      bool // a message of its shard is held back; only on PostgreSQL, and only with an order key
	size      int  // of body, properties and headers

	messageID, exchange, routingKey string
	orderKey                        string
	properties, headers             string // JSON
	body                            []byte // nil: not loaded yet
}

// properties are the properties of a message without a column of their own.
type properties struct {
	ContentType     string `json:"content_type,omitempty"`
	ContentEncoding string `json:"content_encoding,omitempty"`
	Transient       bool   `json:"transient,omitempty"`
	Priority        uint8  `json:"priority,omitempty"`
	Expiration      int64  `json:"expiration_us,omitempty"`
	Timestamp       int64  `json:"timestamp"` // seconds since 1970
	CorrelationID   string `json:"correlation_id,omitempty"`
	ReplyTo         string `json:"reply_to,omitempty"`
	Type            string `json:"type,omitempty"`
	AppID           string `json:"app_id,omitempty"`
}

// hash distributes keys over shards and locks.
func hash(key string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return h.Sum32()
}

// identity identifies the row, even if another one gets its number.
func (r *row) identity() sqltext.Row { return sqltext.Row{Number: r.id, Nonce: r.nonce} }

// newNonce returns a unique number that every database and its JSON can store.
func newNonce() int64 {
	var random [8]byte
	rand.Read(random[:]) // it never fails
	return int64(binary.BigEndian.Uint64(random[:]) >> 1)
}

// newRow returns the row of a message, which gets an id if it has none.
func newRow(m *rehop.Message) (row, error) {
	if m.ID == "" {
		m.ID = rehop.NewID()
	}
	r := row{nonce: newNonce(), messageID: m.ID, exchange: m.Exchange, routingKey: m.Key, orderKey: m.OrderKey, body: m.Body}
	if r.body == nil {
		r.body = []byte{} // nil would be NULL
	}
	if err := checkText(m); err != nil {
		return row{}, err
	}
	switch {
	case m.OrderKey != "" && (m.Delay > 0 || time.Until(m.At) > 0):
		return row{}, fmt.Errorf("%w: a message with an order key cannot be delayed: its order is that of the commits", rehop.ErrInvalid)
	case m.OrderKey == "" && (m.Delay > 0 || !m.At.IsZero()): // the database's clock decides whether it is due
		r.state, r.delay = stateDelayed, max(m.Delay, 0).Microseconds()
		if !m.At.IsZero() {
			r.at = m.At.UnixMicro()
		}
	case m.OrderKey != "":
		r.state = stateOrdered
	}
	r.shard = int(hash(m.ID) % shards)
	if m.OrderKey != "" {
		r.shard = int(hash(m.OrderKey) % shards)
	}
	if err := r.encode(m); err != nil {
		return row{}, err
	}
	r.size = len(r.body) + len(r.headers) + len(r.properties)
	return r, nil
}

// checkText refuses text that a database cannot store or AMQP cannot carry, before it breaks a transaction.
func checkText(m *rehop.Message) error {
	for _, f := range []struct{ name, text string }{
		{"ID", m.ID}, {"Exchange", m.Exchange}, {"Key", m.Key}, {"OrderKey", m.OrderKey}, {"ContentType", m.ContentType},
		{"ContentEncoding", m.ContentEncoding}, {"CorrelationID", m.CorrelationID}, {"ReplyTo", m.ReplyTo}, {"Type", m.Type}, {"AppID", m.AppID},
	} {
		switch {
		case len(f.text) > 255:
			return fmt.Errorf("%w: %s is %d bytes long, the limit is 255", rehop.ErrInvalid, f.name, len(f.text))
		case !utf8.ValidString(f.text) || strings.ContainsRune(f.text, 0):
			return fmt.Errorf("%w: %s %q must be valid UTF-8 without NUL bytes", rehop.ErrInvalid, f.name, f.text)
		}
	}
	if m.Expiration < 0 {
		return fmt.Errorf("%w: expiration %v is negative", rehop.ErrInvalid, m.Expiration)
	}
	for name := range m.Headers {
		if strings.HasPrefix(name, envelope.Prefix) {
			return fmt.Errorf("%w: header %q: names that begin with %q belong to rehop", rehop.ErrInvalid, name, envelope.Prefix)
		}
	}
	return nil
}

func (r *row) encode(m *rehop.Message) error {
	timestamp, expiration := m.Timestamp, m.Expiration.Microseconds()
	if timestamp.IsZero() {
		timestamp = time.Now()
	}
	if m.Expiration > 0 {
		expiration = max(expiration, 1)
	}
	text, err := json.Marshal(properties{
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Transient: m.Transient, Priority: m.Priority,
		Expiration: expiration, Timestamp: timestamp.Unix(), CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo,
		Type: m.Type, AppID: m.AppID,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", rehop.ErrInvalid, err)
	}
	r.properties = string(text)
	if len(m.Headers) == 0 {
		return nil
	}
	if text, err = headerjson.Marshal(m.Headers); err != nil {
		return fmt.Errorf("%w: %w", rehop.ErrInvalid, err)
	}
	r.headers = string(text)
	return nil
}

// message is the reverse of newRow.
func (r *row) message() (rehop.Message, error) {
	var p properties
	if err := json.Unmarshal([]byte(r.properties), &p); err != nil {
		return rehop.Message{}, fmt.Errorf("%w: read properties: %w", rehop.ErrInvalid, err)
	}
	m := rehop.Message{
		ID: r.messageID, Exchange: r.exchange, Key: r.routingKey, OrderKey: r.orderKey, Body: r.body, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
		Transient: p.Transient, Priority: p.Priority, Expiration: time.Duration(p.Expiration) * time.Microsecond, Timestamp: time.Unix(p.Timestamp, 0),
		CorrelationID: p.CorrelationID, ReplyTo: p.ReplyTo, Type: p.Type, AppID: p.AppID,
	}
	if r.headers != "" {
		headers, err := headerjson.Unmarshal([]byte(r.headers))
		if err != nil {
			return rehop.Message{}, fmt.Errorf("%w: %w", rehop.ErrInvalid, err)
		}
		m.Headers = headers
	}
	return m, nil
}
