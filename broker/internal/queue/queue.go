package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// Reason is why a message died, as x-death has it.
type Reason string

// The reasons.
const (
	Rejected      Reason = "rejected"
	Expired       Reason = "expired"
	MaxLength     Reason = "maxlen"
	DeliveryLimit Reason = "delivery_limit"
)

// Death is a message that has left its queue and not been acknowledged.
type Death struct {
	Item   Item
	Reason Reason
	// Noted deaths are in the log: a restart knows of them.
	Noted bool
	// Copied are queues that have taken a copy, while another was full.
	Copied []store.QueueID
}

// Clock tells the time since some fixed moment; it never goes back.
type Clock func() time.Duration

// Queue holds messages in order. It does no I/O and calls nobody but its consumers' sinks: what follows from
// a call is in the Effects that it returns, and the caller must see to them, without locks.
type Queue struct {
	ID     store.QueueID
	Type   Type
	clock  Clock
	budget *Budget
	single bool // only one consumer at a time is served
	rules  Rules

	mu        sync.Mutex
	settings  Settings
	levels    []*backlog // by rising priority; nil: nothing has come yet
	highest   int        // above it all levels are empty
	inARow    int        // of two levels, how often messages were taken since the lower had its turn
	ready     int
	bytes     int64 // of ready and delayed messages
	delayed   delayedItems
	unacked   int
	held      int64 // bytes of unacked messages
	returns   uint64
	arrivals  uint64
	consumers []*Consumer // in the order of their coming
	active    *Consumer   // the one that is served, if single
	round     round
	dead      []Death
	moving    bool  // somebody takes care of dead
	taken     int   // dead letters that were taken and are not done
	deadBytes int64 // bytes of all dead letters that are not done
	loading   bool  // somebody reads contents
	deleted   bool
	bounded   atomic.Bool // may refuse messages
	totals    Totals
	used      time.Duration // last use, for Expires
	alarm     wakeTimer
}

// Totals count what has happened in a queue since the broker began.
type Totals struct {
	Published, Delivered, DeliveredNoAck, Got, GotNoAck, GotNothing, Acked, Redelivered uint64
}

// Plus adds others.
func (t Totals) Plus(more Totals) Totals {
	return Totals{
		Published: t.Published + more.Published, Delivered: t.Delivered + more.Delivered, DeliveredNoAck: t.DeliveredNoAck + more.DeliveredNoAck,
		Got: t.Got + more.Got, GotNoAck: t.GotNoAck + more.GotNoAck, GotNothing: t.GotNothing + more.GotNothing,
		Acked: t.Acked + more.Acked, Redelivered: t.Redelivered + more.Redelivered,
	}
}

// Config is what never changes in a queue.
type Config struct {
	ID     store.QueueID
	Type   Type
	Clock  Clock
	Budget *Budget
	// MaxPriority is the highest priority; 0 is a queue without priorities.
	MaxPriority uint8
	// SingleActive serves one consumer at a time.
	SingleActive bool
	// Rules are those of the release that the broker follows.
	Rules Rules
	// Wake is called by a timer, in a goroutine of its own, when Tick should be called.
	Wake func()
}

// New returns an empty queue. Its clock begins to tick with the first call of a method.
func New(c Config, s Settings) *Queue {
	q := &Queue{ID: c.ID, Type: c.Type, clock: c.Clock, budget: c.Budget, single: c.SingleActive, rules: c.Rules, levels: make([]*backlog, c.levels())}
	q.alarm.wake = c.Wake
	q.settings = s
	q.bounded.Store(s.refuses())
	q.used = q.clock()
	return q
}

func (s Settings) refuses() bool {
	return s.Overflow != DropHead && (s.MaxLength >= 0 || s.MaxBytes >= 0)
}

// Effects is what the caller of a method has to do next, in this order.
type Effects struct {
	// Settled messages have left the queue for good.
	Settled []*Message
	// Load: call Missing, read the contents and call Loaded.
	Load bool
	// Dead: call TakeDead until it returns nothing.
	Dead bool
}

// Configure changes the settings.
func (q *Queue) Configure(s Settings) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settings = s
	q.bounded.Store(s.refuses())
	q.used = q.clock()
	return q.pump()
}

// Admits reports whether a message of a size may come in, if the queue refuses messages when it is full. A quorum queue
// takes one more than it should.
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

// length is how many messages count for the limit of them.
func (q *Queue) length() int64 { return int64(q.ready + len(q.delayed)) }

// TooLarge reports whether a message of a size does not come in even if the queue is empty.
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

// RefusesToDeadLetter reports whether a refused message goes to the dead letter exchange.
func (q *Queue) RefusesToDeadLetter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings.Overflow == RejectPublishDLX && q.settings.HasDeadLetter
}

// Refuse makes a dead letter of a message that did not come in.
func (q *Queue) Refuse(m *Message) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.die(Item{Message: m}, MaxLength)
	return q.effects()
}

// Push appends a message. ttl is the message's own time to live, negative for none.
func (q *Queue) Push(m *Message, ttl time.Duration) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		q.budget.release(m)
		return Effects{Settled: []*Message{m}}
	}
	q.totals.Published++
	q.arrivals++
	it := Item{Message: m, place: q.arrivals, Expires: q.lifetime(ttl), Failures: m.Failures, Redelivered: q.rules.ShowsFailures && m.Failures > 0}
	it.brought = it.Redelivered && q.Type == Classic // RabbitMQ counts such deliveries of quorum queues as repeated
	if content := m.Content(); q.ready == 0 && content != nil {
		if fx, taken := q.handOver(it, content); taken {
			return fx
		}
	}
	q.put(it)
	fx := q.pump()
	if q.ready > 0 && m.refs.Load() > 0 {
		q.budget.spare(m)
	}
	return fx
}

// handOver gives a message that has just come to a consumer that waits for it, even if it is to expire at once.
func (q *Queue) handOver(it Item, content *store.Content) (Effects, bool) {
	for c := q.turn(); c != nil; c = q.turn() {
		if !c.Deliver(it, content) {
			q.park(c)
			continue
		}
		settled := q.delivered(c, it)
		q.alarm.set(q)
		return Effects{Settled: settled, Dead: q.hasDeadLetters()}, true
	}
	return Effects{}, false
}

// delivered counts an item that a consumer has taken.
func (q *Queue) delivered(c *Consumer, it Item) (settled []*Message) {
	if it.repeated() {
		q.totals.Redelivered++
	}
	if c.NoAck {
		q.totals.DeliveredNoAck++
		q.budget.release(it.Message)
		settled = []*Message{it.Message}
	} else {
		q.totals.Delivered++
		q.hold(it)
	}
	if !q.single {
		q.round.served()
	}
	return settled
}

// lifetime returns when a message that comes now expires.
func (q *Queue) lifetime(own time.Duration) time.Duration {
	ttl := q.settings.TTL
	if ttl < 0 || own >= 0 && own < ttl {
		ttl = own
	}
	if ttl < 0 {
		return 0
	}
	return max(q.clock()+ttl, 1)
}

// Restore appends a message that was found in the log. age is how long it has been in the queue.
func (q *Queue) Restore(m *Message, ttl, age time.Duration, returns Returns, redelivered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	it := Item{Message: m, place: q.arrivals, Count: returns.Count, Failures: returns.Failures, Redelivered: redelivered}
	if until := q.lifetime(ttl); until != 0 {
		it.Expires = max(until-age, 1)
	}
	if returns.Delay > 0 {
		q.delay(it, returns.Delay)
		return
	}
	q.put(it)
}

// RestoreDead adds a message of which the log says that it has died and is not yet where it belongs.
func (q *Queue) RestoreDead(m *Message, returns Returns, why Reason, copied []store.QueueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.die(Item{Message: m, Count: returns.Count, Failures: returns.Failures, Redelivered: true}, why)
	d := &q.dead[len(q.dead)-1]
	d.Noted, d.Copied = true, copied
}

// Revive appends a message that has died in this queue and found no way out of it. It does not expire: what it died of must not take it again before
// somebody has seen it.
func (q *Queue) Revive(m *Message, returns Returns) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	q.put(Item{Message: m, place: q.arrivals, Count: returns.Count, Failures: returns.Failures, Redelivered: true})
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
	q.turnLevels(top)
	it := top.pop()
	q.ready--
	q.bytes -= q.Weight(it.Message)
	return it
}

// deathsAtOnce bounds how long a queue is locked when many messages expire.
const deathsAtOnce = 256

// pump drops what is too old or too much and hands out what consumers have room for.
func (q *Queue) pump() Effects {
	var settled []*Message
	load := false
	q.promote()
	q.cull()
	for q.ready > 0 && !q.clogged() {
		c := q.turn()
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
			q.park(c)
			continue
		}
		settled = append(settled, q.delivered(c, q.pop())...)
		q.expire()
	}
	if q.Type == Quorum && !q.loading {
		q.trim()
	}
	q.alarm.set(q)
	return Effects{Settled: settled, Load: load, Dead: q.hasDeadLetters()}
}

// clogged: so much has died that somebody must take it away before anything else happens.
func (q *Queue) clogged() bool { return len(q.dead) >= deathsAtOnce }

// Pump goes on after dead letters were taken away.
func (q *Queue) Pump() Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pump()
}

// hasDeadLetters: there are dead letters to take.
func (q *Queue) hasDeadLetters() bool { return len(q.dead) > 0 && !q.moving }

func (q *Queue) effects() Effects {
	q.alarm.set(q)
	return Effects{Dead: q.hasDeadLetters()}
}

// hold keeps account of an item that somebody has and has not acknowledged. What is on disk needs not be in memory too.
func (q *Queue) hold(it Item) {
	q.unacked++
	q.held += q.Weight(it.Message)
	q.budget.spare(it.Message)
}

func (q *Queue) letGo(it Item) {
	q.unacked--
	q.held -= q.Weight(it.Message)
}

// turn returns the consumer that is next, or nil if nobody has room.
func (q *Queue) turn() *Consumer {
	if !q.single {
		return q.round.next()
	}
	if q.active != nil && q.active.standing == ready {
		return q.active
	}
	return nil
}

func (q *Queue) park(c *Consumer) {
	c.standing = parked
	if !q.single {
		q.round.leave(c)
	}
}

// cull makes dead letters of what is not for consumers. A quorum queue gives them all it can before it drops what is too much.
func (q *Queue) cull() {
	if q.Type == Classic {
		q.trim()
	}
	q.expire()
}

// expire makes dead letters of the items at the head whose time is over.
func (q *Queue) expire() {
	head := q.head()
	if head == nil || head.Expires == 0 {
		return
	}
	now := q.clock()
	for head != nil && head.Expires != 0 && head.Expires <= now && !q.clogged() {
		q.die(q.pop(), Expired)
		head = q.head()
	}
}

// trim makes dead letters of the items at the head that are too many.
func (q *Queue) trim() {
	s := &q.settings
	if s.Overflow != DropHead {
		return
	}
	for q.ready > 0 && !q.clogged() && (s.MaxLength >= 0 && q.length() > s.MaxLength || s.MaxBytes >= 0 && q.bytes > s.MaxBytes) {
		q.die(q.pop(), MaxLength)
	}
}

func (q *Queue) die(it Item, why Reason) {
	q.dead = append(q.dead, Death{Item: it, Reason: why})
	q.deadBytes += q.Weight(it.Message)
}

// TakeDead returns the messages that have died, for one caller at a time: it must call again until nothing
// is returned, and put each lot where it belongs before. So dead letters stay in order.
func (q *Queue) TakeDead(again bool) []Death {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.moving && !again {
		return nil
	}
	q.cull()
	lot := q.dead
	q.dead = nil
	q.moving = len(lot) > 0
	q.taken += len(lot)
	q.alarm.set(q)
	return lot
}

// DeadLettersDone notes that dead letters have been taken over by others.
func (q *Queue) DeadLettersDone(lot []Death) {
	bytes := int64(0)
	for _, d := range lot {
		bytes += q.Weight(d.Item.Message)
		q.budget.release(d.Item.Message)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken -= len(lot)
	q.deadBytes -= bytes
}

// Tick is to be called when the queue has asked to be woken. It reports whether the queue has not been used for so long
// that it is to be deleted.
func (q *Queue) Tick() (fx Effects, expired bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alarm.fired()
	now := q.clock()
	s := &q.settings
	expired = !q.deleted && s.Expires >= 0 && len(q.consumers) == 0 && now-q.used >= s.Expires
	if expired {
		q.used = now // so that it is not woken again before it is deleted
	}
	return q.pump(), expired
}

// Touch notes that the queue was used.
func (q *Queue) Touch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.clock()
	q.alarm.set(q)
}
