package crashes

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"

	amqp "github.com/rabbitmq/amqp091-go"
)

// script decides from the seed alone what becomes of each message.
type script struct{ seed uint64 }

// route is a way that messages take.
type route struct {
	name          string
	share         int // of a thousand messages
	exchange, key string
	expiration    string
	queues        []string // that it ends in
	via           string   // the queue in which it waits before
	straight      bool     // by way of no other queue
	rests         bool     // nobody takes it from its queue until the end
	moves         bool     // by a transaction, to another queue
}

// The queues. Those who are consumed dead-letter what is rejected, each to a queue of its own.
const (
	queueA, queueB, queueC    = "a", "b", "c"
	deadA, deadB, deadC       = "dead-a", "dead-b", "dead-c"
	queueWait, queueLater     = "wait", "later"
	queueKeep                 = "keep"
	queueTx, queueMoved       = "tx", "moved"
	queueTicks                = "ticks"
	exchangeAll, exchangeDead = "all", "dead"
)

// parking is where messages of a queue go when they are rejected or moved.
var parking = map[string]string{deadA: queueA, deadB: queueB, deadC: queueC, queueMoved: queueTx}

var routes = []*route{
	{name: "to three", share: 450, exchange: exchangeAll, queues: []string{queueA, queueB, queueC}, straight: true},
	{name: "to one", share: 250, key: queueA, queues: []string{queueA}, straight: true},
	{name: "to three after a wait", share: 170, key: queueWait, queues: []string{queueA, queueB, queueC}, via: queueWait},
	{name: "to one with a delay", share: 90, key: queueLater, expiration: "60", queues: []string{queueB}, via: queueLater},
	{name: "to rest", share: 20, key: queueKeep, queues: []string{queueKeep}, straight: true, rests: true},
	{name: "to be moved", share: 20, key: queueTx, queues: []string{queueTx}, straight: true, moves: true},
}

type queue struct {
	name string
	args amqp.Table
}

func queues() []queue {
	dead := func(key string, more amqp.Table) amqp.Table {
		args := amqp.Table{"x-dead-letter-exchange": exchangeDead, "x-dead-letter-routing-key": key}
		for name, value := range more {
			args[name] = value
		}
		return args
	}
	return []queue{
		{queueA, dead(queueA, nil)},
		{queueB, dead(queueB, amqp.Table{"x-queue-type": "quorum"})},
		{queueC, dead(queueC, amqp.Table{"x-queue-mode": "lazy"})},
		{deadA, nil}, {deadB, amqp.Table{"x-queue-type": "quorum"}}, {deadC, nil},
		{queueWait, amqp.Table{"x-message-ttl": int64(80), "x-dead-letter-exchange": exchangeAll}},
		{queueLater, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queueB}},
		{queueKeep, nil}, {queueTx, nil}, {queueMoved, nil},
		{queueTicks, amqp.Table{"x-max-length": int64(1)}},
	}
}

// declare makes all exchanges, queues and bindings.
func declare(ch *amqp.Channel) error {
	for name, kind := range map[string]string{exchangeAll: "fanout", exchangeDead: "direct"} {
		if err := ch.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
			return err
		}
	}
	for _, q := range queues() {
		if _, err := ch.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
			return err
		}
	}
	for _, name := range []string{queueA, queueB, queueC} {
		if err := ch.QueueBind(name, "", exchangeAll, false, nil); err != nil {
			return err
		}
	}
	for parked, owner := range parking {
		if err := ch.QueueBind(parked, owner, exchangeDead, false, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s script) random(of string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(of))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

func (s script) route(id string) *route {
	lot := s.random(id).IntN(1000)
	for _, r := range routes {
		if lot < r.share {
			return r
		}
		lot -= r.share
	}
	return routes[0]
}

// answer is what a consumer does with a delivery.
type answer int

const (
	ack answer = iota
	reject
	giveBack
)

func (s script) answer(queue, id string, requeued bool) answer {
	switch lot := s.random(queue + " " + id).IntN(100); {
	case lot < 7:
		return reject
	case lot < 15 && !requeued:
		return giveBack
	}
	return ack
}

// publishing is the message of an id. Some are larger than a frame.
func (s script) publishing(id string) amqp.Publishing {
	return amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Expiration: s.route(id).expiration, Body: s.body(id)}
}

func (s script) body(id string) []byte {
	random := s.random("body of " + id)
	size := 256
	switch lot := random.IntN(1000); {
	case lot < 3:
		size = 150 << 10
	case lot < 60:
		size = 4 << 10
	}
	body := append(make([]byte, 0, size), id...)
	for len(body) < size-sha256.Size {
		body = binary.LittleEndian.AppendUint64(body, random.Uint64())
	}
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

// intact reports whether a body is as body made it for this id.
func (s script) intact(id string, body []byte) bool {
	cut := len(body) - sha256.Size
	if cut < 0 || !bytes.HasPrefix(body, []byte(id)) {
		return false
	}
	sum := sha256.Sum256(body[:cut])
	return bytes.Equal(sum[:], body[cut:])
}
