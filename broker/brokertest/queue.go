package brokertest

import (
	"math/big"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// Queue is a queue of a server.
type Queue struct {
	Name      string
	Arguments map[string]any
	queue     *node.Queue
}

// Queues returns the queues of a virtual host, by name.
func (c *Control) Queues(vhost string) (all []*Queue) {
	if v := c.node.Vhost(vhost); v != nil {
		for _, q := range v.Queues() {
			all = append(all, newQueue(q))
		}
	}
	return all
}

// Queue returns a queue, or nil if it does not exist.
func (c *Control) Queue(vhost, name string) *Queue {
	if v := c.node.Vhost(vhost); v != nil {
		if q := v.Queue(name); q != nil {
			return newQueue(q)
		}
	}
	return nil
}

func newQueue(q *node.Queue) *Queue { return &Queue{q.Name, tableMap(q.Arguments), q} }

// Counts is how many messages and consumers a queue has.
type Counts struct{ Ready, Unacked, Consumers int }

// Counts returns how many messages and consumers the queue has.
func (q *Queue) Counts() Counts {
	s := q.queue.Status()
	return Counts{Ready: s.Ready, Unacked: s.Unacked, Consumers: len(s.Consumers)}
}

// Delete deletes the queue with its messages.
func (q *Queue) Delete() error {
	_, err := q.queue.Delete(false, false)
	return err
}

// Message is a message in a queue.
type Message struct {
	Exchange, Key   string
	Headers         map[string]any
	Body            []byte
	ContentType     string
	ContentEncoding string
	Persistent      bool
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string
	MessageID       string
	Timestamp       time.Time
	Type            string
	AppID           string
	Redelivered     bool
}

// Messages returns the ready messages of the queue, from its head. They stay in the queue.
func (q *Queue) Messages() ([]Message, error) { return messages(q.queue.PeekMessages()) }

// Unacked returns the unacked messages of the queue, in no order.
func (q *Queue) Unacked() ([]Message, error) { return messages(q.queue.PeekUnacked()) }

func messages(seen []node.PeekedMessage, err error) (all []Message, _ error) {
	if err != nil {
		return nil, err
	}
	for _, s := range seen {
		p := s.Properties
		m := Message{Exchange: s.Exchange, Key: s.Key, Headers: tableMap(p.Headers), Body: s.Body, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
			Persistent: p.DeliveryMode == persistent, Priority: p.Priority, CorrelationID: p.CorrelationID, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
			MessageID: p.MessageID, Type: p.Type, AppID: p.AppID, Redelivered: s.Redelivered}
		if p.Timestamp != 0 {
			m.Timestamp = time.Unix(int64(p.Timestamp), 0)
		}
		all = append(all, m)
	}
	return all, nil
}

// persistent is the delivery mode of persistent messages.
const persistent = 2

// tableMap converts a table to Go types.
func tableMap(t wire.Table) map[string]any {
	fields := make(map[string]any, len(t))
	for _, f := range t {
		fields[f.Key] = fieldValue(f.Value)
	}
	return fields
}

func fieldValue(v any) any {
	switch v := v.(type) {
	case wire.Table:
		return tableMap(v)
	case wire.Array:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = fieldValue(e)
		}
		return list
	case wire.Timestamp:
		return time.Unix(int64(v), 0)
	case wire.Decimal: // as text, because Go has no type for it
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Scale)), nil)
		return new(big.Rat).SetFrac(big.NewInt(int64(int32(v.Value))), scale).FloatString(int(v.Scale))
	}
	return v
}
