package node

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/node/queue"
	"github.com/rehop/rehop/internal/node/store"
	"github.com/rehop/rehop/internal/wire"
)

// bury moves the dead letters of a queue to where they belong, and those that die on the way after them.
func (n *Node) bury(q *Queue) {
	work := []*Queue{q}
	for len(work) > 0 {
		q, work = work[0], work[1:]
		for {
			lot := q.core.TakeDead(false)
			for len(lot) > 0 {
				n.mourn(q, lot)
				work = append(work, n.deadLetter(q, lot)...)
				lot = q.core.TakeDead(true)
			}
			if !n.settleAndLoad(q, q.core.Pump()) {
				break
			}
		}
	}
}

// arrival is a message on its way into a queue.
type arrival struct {
	queue   *Queue
	message *queue.Message
}

// noTTL is the time to live of messages that have none of their own.
const noTTL = time.Duration(-1)

// lettersAtOnce is about how many bytes of dead letters are moved in one step of the log.
const lettersAtOnce = 1 << 20

// deadLetter publishes dead letters again and takes them out of their queue, each letter in one step of the log. It returns the
// queues in which messages have died by that.
func (n *Node) deadLetter(q *Queue, lot []queue.Death) (dying []*Queue) {
	settings := q.core.Settings()
	keeps := settings.KeepsDeadLetters(q.core.Type)
	for len(lot) > 0 {
		n.steps.Add(1)
		b := n.batch()
		var arrivals []arrival
		var buried []queue.Death
		for len(lot) > 0 && b.Size() < lettersAtOnce {
			d := lot[0]
			lot = lot[1:]
			if settings.HasDeadLetter {
				more, err := n.deadLetterOne(q, settings, d, b)
				switch {
				case errors.Is(err, errNoRoute):
					if keeps && q.strandedBox.add(q, d) {
						continue
					}
				case err == nil && keeps:
					n.tally.rehoused.Add(1)
				case err != nil:
					n.log.Error("a dead letter cannot be read; it is left in the log", "queue", q.Name, "vhost", q.vhost.Name, "error", err)
					buried = append(buried, d)
					continue
				}
				arrivals = append(arrivals, more...)
			}
			b.Settle(&d.Item.Message.Message, q.core.ID)
			buried = append(buried, d)
		}
		n.commit(b)
		n.throttle()
		for _, a := range arrivals {
			if n.settleAndLoad(a.queue, a.queue.core.Push(a.message, noTTL)) {
				dying = append(dying, a.queue)
			}
		}
		q.core.Buried(buried)
	}
	return dying
}

// errNoRoute: there is nowhere to go for a dead letter.
var errNoRoute = errors.New("no queue takes the dead letter")

// deadLetterOne prepares one dead letter.
func (n *Node) deadLetterOne(q *Queue, s queue.Settings, d queue.Death, b *store.Batch) ([]arrival, error) {
	v := q.vhost
	x := v.Exchange(s.DeadLetter)
	if x == nil {
		return nil, errNoRoute
	}
	message := d.Item.Message
	content := message.Content()
	if content == nil {
		c, err := n.store.Read(&message.Message)
		if err != nil {
			return nil, err
		}
		content = &c
	}
	properties, err := wire.ParseProperties(content.Properties)
	if err != nil {
		return nil, err
	}
	keys := append([]string{content.Key}, listed(properties.Headers, "CC")...)
	key := content.Key
	blind := listed(properties.Headers, "BCC")
	obituary := death{queue: q.Name, reason: d.Reason, exchange: content.Exchange, keys: keys, expiration: properties.Expiration, time: time.Now()}
	headers := properties.Headers
	if s.HasDeadLetterKey {
		key, keys, blind = s.DeadLetterKey, []string{s.DeadLetterKey}, nil
		headers = headers.Without("CC").Without("BCC")
	}
	headers, deaths := noteDeath(n.config.Compat, headers, hasOurDeaths(content.Properties), obituary)
	properties.Headers = headers
	properties.Has |= wire.HasHeaders
	properties.Expiration = ""
	properties.Has &^= wire.HasExpiration

	queues, _ := v.route(x, append(keys, blind...), func() wire.Table { return headers })
	queues = slices.DeleteFunc(queues, func(target *Queue) bool { return !target.core.Admits(len(content.Body)) })
	if d.Reason != queue.Rejected {
		queues = slices.DeleteFunc(queues, func(target *Queue) bool { return isCycle(deaths, target.Name) })
	}
	if len(queues) == 0 {
		return nil, errNoRoute
	}
	raw := properties.Append(nil)
	if len(raw) == 0 { // there is no room for so many headers; a message without its deaths is better than none
		raw = unmarked(content.Properties)
	} else {
		raw = mark(raw, deathFlag)
	}
	if len(blind) > 0 {
		raw = mark(raw, blindFlag)
	}
	next := &store.Content{Exchange: x.Name, Key: key, Properties: raw, Body: content.Body}
	m := n.enqueue(b, next, wire.Brief{DeliveryMode: properties.DeliveryMode, Priority: properties.Priority}, queues, noTTL)
	arrivals := make([]arrival, len(queues))
	for i, target := range queues {
		arrivals[i] = arrival{target, m}
	}
	return arrivals, nil
}

// stranded holds dead letters that no queue takes, while their queue promises to keep them.
type stranded struct {
	mu    sync.Mutex
	lot   []queue.Death
	timer *time.Timer
	over  bool
}

// strandedPause is the time between tries to move them. RabbitMQ takes three minutes; here it costs little to look more often.
const strandedPause = time.Second

// add keeps a dead letter. False: the queue is gone.
func (s *stranded) add(q *Queue, d queue.Death) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.lot = append(s.lot, d)
	if s.timer == nil {
		s.timer = time.AfterFunc(strandedPause, func() { q.vhost.node.retryStranded(q) })
	}
	return true
}

func (s *stranded) take() []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	lot := s.lot
	s.lot, s.timer = nil, nil
	return lot
}

// stop ends it and returns what it held.
func (s *stranded) stop() []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	lot := s.lot
	s.lot = nil
	return lot
}

func (n *Node) retryStranded(q *Queue) {
	if !n.tasks.enter() {
		return
	}
	defer n.tasks.leave()
	for _, target := range n.deadLetter(q, q.strandedBox.take()) {
		n.bury(target)
	}
}
