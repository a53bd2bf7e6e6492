package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// Reason is why a message was dead-lettered, as in the header x-death.
type Reason string

const (
	Rejected      Reason = "rejected"
	Expired       Reason = "expired"
	MaxLength     Reason = "maxlen"
	DeliveryLimit Reason = "delivery_limit"
)

// Death is a dead letter: a message that has left its queue without being acked.
type Death struct {
	Item   Item
	Reason Reason
	// Noted deaths are in the log, so that they survive a restart.
	Noted bool
	// Copied are the queues that have accepted a copy while another queue was full.
	Copied []store.QueueID
}

// Clock returns the time since some fixed moment. It never goes back.
type Clock func() time.Duration

// Queue keeps messages in order. It does no I/O and calls only its consumers' sinks. What has to be done
// after a call is in the Effects that it returns. The caller must do that without locks.
type Queue struct {
	Config

	mu           sync.Mutex
	settings     Settings
	levels       []*backlog // by rising priority; nil until the first message
	highest      int        // all levels above it are empty
	inARow       int        // with two levels: how many messages were taken since the turn of the lower level
	ready        int
	bytes        int64 // of ready and delayed messages
	delayed      minHeap[delayedItem]
	unacked      int
	unackedBytes int64
	returns      uint64
	arrivals     uint64
	consumers    []*Consumer // the oldest first
	active       *Consumer   // the one that gets messages, if SingleActive
	leaving      *Consumer   // the one that did before, until its unacked messages are back
	roundRobin   roundRobin
	dead         []Death
	takingDead   bool  // a caller of TakeDead processes dead letters
	deadTaken    int   // dead letters that were taken and are not done
	deadBytes    int64 // bytes of all dead letters that are not done
	loading      bool  // a caller reads contents
	deleted      bool
	bounded      atomic.Bool // the queue may refuse messages
	totals       Totals
	lastUse      time.Duration // for Settings.Expires
	timer        wakeTimer
}

// Totals counts what has happened in a queue since the broker started.
type Totals struct {
	Published, Delivered, DeliveredNoAck, Got, GotNoAck, GotNothing, Acked, Redelivered uint64
}

// Plus returns the sum.
func (t Totals) Plus(more Totals) Totals {
	return Totals{
		Published: t.Published + more.Published, Delivered: t.Delivered + more.Delivered, DeliveredNoAck: t.DeliveredNoAck + more.DeliveredNoAck,
		Got: t.Got + more.Got, GotNoAck: t.GotNoAck + more.GotNoAck, GotNothing: t.GotNothing + more.GotNothing,
		Acked: t.Acked + more.Acked, Redelivered: t.Redelivered + more.Redelivered,
	}
}

// Config has the settings that never change.
type Config struct {
	ID     store.QueueID
	Type   Type
	Clock  Clock
	Budget *Budget
	// MaxPriority is the highest priority; 0 means a queue without priorities.
	MaxPriority uint8
	// SingleActive delivers to one consumer at a time.
	SingleActive bool
	// Rules are those of the release of RabbitMQ that the broker follows.
	Rules Rules
	// Wake is called by a timer, in its own goroutine, when Tick should be called.
	Wake func()
}

// New returns an empty queue. Its timer starts with the first call of a method.
func New(c Config, s Settings) *Queue {
	q := &Queue{Config: c, levels: make([]*backlog, c.levelCount())}
	q.configure(s)
	return q
}

func (q *Queue) configure(s Settings) {
	q.settings = s
	q.bounded.Store(s.refuses())
	q.lastUse = q.Clock()
}

func (s Settings) refuses() bool {
	return s.Overflow != DropHead && (s.MaxLength >= 0 || s.MaxBytes >= 0)
}

// Effects is what the caller of a method must do next, in this order.
type Effects struct {
	// Settled messages have left the queue: settle them in the log.
	Settled []*Message
	// Load: call Missing, read the contents, and call Loaded.
	Load bool
	// Dead: call TakeDead until it returns nothing.
	Dead bool
}

// Configure changes the settings.
func (q *Queue) Configure(s Settings) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.configure(s)
	return q.pump()
}

// Admits reports whether the queue accepts a message of a size. It is false only for queues that refuse
// messages when they are full. A quorum queue accepts one message more than its limit.
func (q *Queue) Admits(size int) bool {
	if !q.bounded.Load() {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.settings
	length, bytes := q.length(), q.bytes
	if q.Type == Classic {
		length, bytes = length+1, bytes+int64(size)
	}
	return !s.refuses() || (s.MaxLength < 0 || length <= s.MaxLength) && (s.MaxBytes < 0 || bytes <= s.MaxBytes)
}

// length is the number of messages that count toward MaxLength.
func (q *Queue) length() int64 { return int64(q.ready + len(q.delayed)) }

// TooLarge reports whether the queue refuses a message of a size even when it is empty.
func (q *Queue) TooLarge(size int) bool {
	if !q.bounded.Load() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.settings
	return q.Type == Classic && s.refuses() && s.MaxBytes >= 0 && int64(size) > s.MaxBytes
}

// Bounded reports whether the queue may refuse messages.
func (q *Queue) Bounded() bool { return q.bounded.Load() }

// RefusesToDeadLetter reports whether a refused message goes to the dead-letter exchange.
func (q *Queue) RefusesToDeadLetter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings.Overflow == RejectPublishDLX && q.settings.HasDeadLetter
}

// Refuse dead-letters a message that the queue does not admit.
func (q *Queue) Refuse(m *Message) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addDead(Item{Message: m}, MaxLength)
	return q.effects()
}

// Push appends a message. The ttl is that of the message itself, negative for none.
func (q *Queue) Push(m *Message, ttl time.Duration) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		q.Budget.release(m)
		return Effects{Settled: []*Message{m}}
	}
	q.totals.Published++
	q.arrivals++
	it := Item{Message: m, place: q.arrivals, Expires: q.lifetime(ttl), Failures: m.Failures, Redelivered: q.Rules.ShowsFailures && m.Failures > 0}
	it.failedElsewhere = it.Redelivered && q.Type == Classic // RabbitMQ counts such deliveries of quorum queues as repeated
	if content := m.Content(); q.ready == 0 && content != nil {
		if fx, ok := q.deliverDirectly(it, content); ok {
			return fx
		}
	}
	q.put(it)
	fx := q.pump()
	if q.ready > 0 && m.refs.Load() > 0 {
		q.Budget.unloadIfFull(m)
	}
	return fx
}

// deliverDirectly delivers a new message to a waiting consumer, even if it would expire at once.
func (q *Queue) deliverDirectly(it Item, content *store.Content) (Effects, bool) {
	for c := q.nextConsumer(); c != nil; c = q.nextConsumer() {
		if !c.Deliver(it, content) {
			q.setFull(c)
			continue
		}
		return q.effects(q.delivered(c, it)...), true
	}
	return Effects{}, false
}

// delivered accounts for an item that a consumer has accepted.
func (q *Queue) delivered(c *Consumer, it Item) (settled []*Message) {
	if !q.SingleActive {
		q.roundRobin.advance()
	}
	return q.taken(it, c.NoAck, &q.totals.Delivered, &q.totals.DeliveredNoAck)
}

// taken accounts for an item that a client has received. It returns the message if it needs no ack.
func (q *Queue) taken(it Item, noAck bool, count, countNoAck *uint64) (settled []*Message) {
	if it.repeated() {
		q.totals.Redelivered++
	}
	if noAck {
		*countNoAck++
		q.Budget.release(it.Message)
		return []*Message{it.Message}
	}
	*count++
	q.unacked++
	q.unackedBytes += q.Weight(it.Message)
	q.Budget.unloadIfFull(it.Message)
	return nil
}

// lifetime returns when a message that arrives now expires.
func (q *Queue) lifetime(own time.Duration) time.Duration {
	ttl := q.settings.TTL
	if ttl < 0 || own >= 0 && own < ttl {
		ttl = own
	}
	if ttl < 0 {
		return 0
	}
	return max(q.Clock()+ttl, 1)
}

// Restore appends a message that was found in the log. The age is how long it has been in the queue.
func (q *Queue) Restore(m *Message, ttl, age time.Duration, returns Returns, redelivered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := Item{Message: m, Count: returns.Count, Failures: returns.Failures, Redelivered: redelivered}
	if until := q.lifetime(ttl); until != 0 {
		it.Expires = max(until-age, 1)
	}
	if returns.Delay > 0 {
		q.delay(it, returns.Delay)
		return
	}
	q.append(it)
}

// RestoreDead adds a message that is in the log as a dead letter which was not yet routed.
func (q *Queue) RestoreDead(m *Message, returns Returns, why Reason, copied []store.QueueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addDead(Item{Message: m, Count: returns.Count, Failures: returns.Failures, Redelivered: true}, why)
	d := &q.dead[len(q.dead)-1]
	d.Noted, d.Copied = true, copied
}

// Revive appends a dead letter of this queue that could not be routed anywhere. It does not expire, so
// that it is not dead-lettered again before a consumer gets it.
func (q *Queue) Revive(m *Message, returns Returns) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.append(Item{Message: m, Count: returns.Count, Failures: returns.Failures, Redelivered: true})
}

// append puts an item behind all others.
func (q *Queue) append(it Item) {
	q.arrivals++
	it.place = q.arrivals
	q.put(it)
}

func (q *Queue) put(it Item) {
	q.backlogOf(q.level(it.Message)).fresh.push(it)
	q.ready++
	q.bytes += q.Weight(it.Message)
}

// head returns the next item, or nil.
func (q *Queue) head() *Item {
	if l := q.top(); l != nil {
		return l.head()
	}
	return nil
}

func (q *Queue) pop() Item {
	top := q.top()
	q.countInARow(top)
	it := top.pop()
	q.ready--
	q.bytes -= q.Weight(it.Message)
	return it
}

// deathsAtOnce limits how long a queue is locked when many messages expire.
const deathsAtOnce = 256

// pump drops expired and excess messages, and delivers what consumers have room for.
func (q *Queue) pump() Effects {
	var settled []*Message
	load := false
	q.promote()
	q.drop()
	for q.ready > 0 && !q.tooManyDead() {
		c := q.nextConsumer()
		if c == nil {
			break
		}
		head := q.head()
		content := head.Message.Content()
		if content == nil {
			load = !q.loading
			q.loading = true
			break
		}
		if !c.Deliver(*head, content) {
			q.setFull(c)
			continue
		}
		settled = append(settled, q.delivered(c, q.pop())...)
		q.dropExpired()
	}
	if q.Type == Quorum && !q.loading {
		q.dropExcess()
	}
	fx := q.effects(settled...)
	fx.Load = load
	return fx
}

// tooManyDead reports whether dead letters must be taken before anything else can happen.
func (q *Queue) tooManyDead() bool { return len(q.dead) >= deathsAtOnce }

// Pump continues after dead letters were taken.
func (q *Queue) Pump() Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pump()
}

// effects sets the timer and returns what the caller must do.
func (q *Queue) effects(settled ...*Message) Effects {
	q.timer.set(q)
	return Effects{Settled: settled, Dead: len(q.dead) > 0 && !q.takingDead}
}

func (q *Queue) removeUnacked(it Item) {
	q.unacked--
	q.unackedBytes -= q.Weight(it.Message)
}

// nextConsumer returns the consumer that gets the next message, or nil if none has room.
func (q *Queue) nextConsumer() *Consumer {
	if !q.SingleActive {
		return q.roundRobin.next()
	}
	if q.active != nil && q.active.state == ready {
		return q.active
	}
	return nil
}

func (q *Queue) setFull(c *Consumer) {
	c.state = full
	if !q.SingleActive {
		q.roundRobin.remove(c)
	}
}

// drop dead-letters expired and excess items. A quorum queue delivers as much as it can before it drops
// excess items.
func (q *Queue) drop() {
	if q.Type == Classic {
		q.dropExcess()
	}
	q.dropExpired()
}

// dropExpired dead-letters the expired items at the head.
func (q *Queue) dropExpired() {
	head := q.head()
	if head == nil || head.Expires == 0 {
		return
	}
	now := q.Clock()
	for head != nil && head.Expires != 0 && head.Expires <= now && !q.tooManyDead() {
		q.addDead(q.pop(), Expired)
		head = q.head()
	}
}

// dropExcess dead-letters items at the head that exceed the limits.
func (q *Queue) dropExcess() {
	s := &q.settings
	if s.Overflow != DropHead {
		return
	}
	for q.ready > 0 && !q.tooManyDead() && (s.MaxLength >= 0 && q.length() > s.MaxLength || s.MaxBytes >= 0 && q.bytes > s.MaxBytes) {
		q.addDead(q.pop(), MaxLength)
	}
}

func (q *Queue) addDead(it Item, why Reason) {
	q.dead = append(q.dead, Death{Item: it, Reason: why})
	q.deadBytes += q.Weight(it.Message)
}

// TakeDead returns dead letters, to one caller at a time. That caller must process them and call
// TakeDead(true), until it returns nothing. So dead letters stay in order.
func (q *Queue) TakeDead(again bool) []Death {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.takingDead && !again {
		return nil
	}
	q.drop()
	taken := q.dead
	q.dead = nil
	q.takingDead = len(taken) > 0
	q.deadTaken += len(taken)
	q.timer.set(q)
	return taken
}

// DeadLettersDone is called when dead letters are in other queues, or were dropped.
func (q *Queue) DeadLettersDone(letters []Death) {
	bytes := int64(0)
	for _, d := range letters {
		bytes += q.Weight(d.Item.Message)
		q.Budget.release(d.Item.Message)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deadTaken -= len(letters)
	q.deadBytes -= bytes
}

// Tick must be called after Config.Wake. It reports whether the queue has expired and must be deleted.
func (q *Queue) Tick() (fx Effects, expired bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer.fired()
	now := q.Clock()
	s := &q.settings
	expired = !q.deleted && s.Expires >= 0 && len(q.consumers) == 0 && now-q.lastUse >= s.Expires
	if expired {
		q.lastUse = now // so that the timer does not fire again before the queue is deleted
	}
	return q.pump(), expired
}

// Touch is called when the queue is used, so that it does not expire.
func (q *Queue) Touch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUse = q.Clock()
	q.timer.set(q)
}
