package queue

import (
	"slices"
	"time"
)

// model is a queue that is as simple as possible: it is slow, and compares everything.
type model struct {
	kind        Type
	maxPriority int
	single      bool
	settings    Settings
	now, used   time.Duration

	ready     []entry // in the order of delivery
	delayed   []entry // in the order of return
	arrivals  int
	unacked   map[string]entry
	consumers []*client // the oldest first
	line      []*client // those with room; the one that waited longest is first
	active    *client
	made      []string
	dead      []string
	totals    Totals
}

// entry is a message in the model.
type entry struct {
	name        string
	size        int64
	priority    int
	arrival     int
	back        bool // returned to a quorum queue, before all that were never delivered
	redelivered bool
	count       uint32
	expires     time.Duration
	until       time.Duration // it is delayed
}

// client is a consumer in the model.
type client struct {
	tag       string
	priority  int
	exclusive bool
	noAck     bool
	room      int
}

func (m *model) lifetime(own time.Duration) time.Duration {
	switch queue := m.settings.TTL; {
	case queue >= 0 && own >= 0:
		return m.now + min(queue, own)
	case queue >= 0:
		return m.now + queue
	case own >= 0:
		return m.now + own
	}
	return 0
}

// insert puts an entry behind all of at least its priority, but before the first of its priority that it
// precedes.
func (m *model) insert(e entry, precedes func(entry) bool) {
	at := slices.IndexFunc(m.ready, func(other entry) bool {
		return other.priority < e.priority || other.priority == e.priority && precedes(other)
	})
	if at < 0 {
		at = len(m.ready)
	}
	m.ready = slices.Insert(m.ready, at, e)
}

func (m *model) put(e entry) { m.insert(e, func(entry) bool { return false }) }

func (m *model) push(name string, size int, priority uint8, ttl time.Duration) {
	m.totals.Published++
	m.arrivals++
	e := entry{name: name, size: int64(size), priority: min(int(priority), m.maxPriority), arrival: m.arrivals, expires: m.lifetime(ttl)}
	if len(m.ready) == 0 {
		if c := m.turn(); c != nil {
			m.deliver(c, e)
			return
		}
	}
	m.put(e)
	m.pump()
}

// turn finds the consumer for the next message, and removes those without room from the line.
func (m *model) turn() *client {
	for {
		var next *client
		for _, c := range m.line {
			if m.single && c != m.active {
				continue
			}
			if next == nil || c.priority > next.priority {
				next = c
			}
		}
		if next == nil || next.room > 0 {
			return next
		}
		m.leave(next)
	}
}

func (m *model) leave(c *client) {
	m.line = slices.DeleteFunc(m.line, func(other *client) bool { return other == c })
}

func (m *model) deliver(c *client, e entry) {
	c.room--
	m.made = append(m.made, c.tag+":"+e.name)
	if e.redelivered {
		m.totals.Redelivered++
	}
	if c.noAck {
		m.totals.DeliveredNoAck++
	} else {
		m.totals.Delivered++
		m.unacked[e.name] = e
	}
	m.leave(c)
	m.line = append(m.line, c)
}

func (m *model) pop() entry {
	e := m.ready[0]
	m.ready = m.ready[1:]
	return e
}

func (m *model) die(e entry, why Reason) { m.dead = append(m.dead, e.name+" "+string(why)) }

func (m *model) expire() {
	for len(m.ready) > 0 && m.ready[0].expires != 0 && m.ready[0].expires <= m.now {
		m.die(m.pop(), Expired)
	}
}

func (m *model) bytes() (sum int64) {
	for _, e := range m.ready {
		sum += e.size
	}
	for _, e := range m.delayed {
		sum += e.size
	}
	return sum
}

// length is the number of messages that count toward the limit.
func (m *model) length() int64 { return int64(len(m.ready) + len(m.delayed)) }

// nextDelayed finds the entry that is ready first, or returns -1.
func (m *model) nextDelayed() int {
	next := -1
	for i, e := range m.delayed {
		if next < 0 || e.until < m.delayed[next].until {
			next = i
		}
	}
	return next
}

func (m *model) promote() {
	for next := m.nextDelayed(); next >= 0 && m.delayed[next].until <= m.now; next = m.nextDelayed() {
		e := m.delayed[next]
		m.delayed = slices.Delete(m.delayed, next, next+1)
		e.back = true
		m.insert(e, func(other entry) bool { return !other.back })
	}
}

func (m *model) heldBytes() (sum int64) {
	for _, e := range m.unacked {
		sum += e.size
	}
	return sum
}

func (m *model) trim() {
	s := m.settings
	for s.Overflow == DropHead && len(m.ready) > 0 && (s.MaxLength >= 0 && m.length() > s.MaxLength || s.MaxBytes >= 0 && m.bytes() > s.MaxBytes) {
		m.die(m.pop(), MaxLength)
	}
}

func (m *model) pump() {
	m.promote()
	m.cull()
	for len(m.ready) > 0 {
		c := m.turn()
		if c == nil {
			break
		}
		m.deliver(c, m.pop())
		m.expire()
	}
	if m.kind == Quorum {
		m.trim()
	}
}

func (m *model) cull() {
	if m.kind == Classic {
		m.trim()
	}
	m.expire()
}

func (m *model) admits(size int) bool {
	s := m.settings
	length, bytes := m.length(), m.bytes()
	if m.kind == Classic {
		length, bytes = length+1, bytes+int64(size)
	}
	return s.Overflow == DropHead || (s.MaxLength < 0 || length <= s.MaxLength) && (s.MaxBytes < 0 || bytes <= s.MaxBytes)
}

func (m *model) subscribe(c *client) bool {
	if m.kind == Classic {
		if c.exclusive && (m.single || len(m.consumers) > 0) || len(m.consumers) > 0 && m.consumers[0].exclusive {
			return false
		}
	}
	m.consumers = append(m.consumers, c)
	if m.single && m.active == nil {
		m.active = c
	}
	return true
}

func (m *model) unsubscribe(c *client) {
	m.consumers = slices.DeleteFunc(m.consumers, func(other *client) bool { return other == c })
	m.leave(c)
	m.used = m.now
	if m.active == c {
		m.active = nil
		next := slices.Clone(m.consumers)
		if m.kind == Classic {
			slices.SortStableFunc(next, func(a, b *client) int { return b.priority - a.priority })
		}
		if len(next) > 0 {
			m.active = next[0]
		}
	}
	m.pump()
}

func (m *model) resume(c *client) {
	if slices.Contains(m.consumers, c) && !slices.Contains(m.line, c) {
		m.line = append(m.line, c)
	}
	m.pump()
}

// takeBack removes an unacked entry.
func (m *model) takeBack(name string) entry {
	e := m.unacked[name]
	delete(m.unacked, name)
	return e
}

func (m *model) settle(names []string) {
	for _, name := range names {
		m.takeBack(name)
		m.totals.Acked++
	}
}

func (m *model) kill(names []string) {
	for _, name := range names {
		m.die(m.takeBack(name), Rejected)
	}
}

// delays reports whether a returned message is delayed. The queues of the model do not count failures.
func (m *model) delays(failed bool) bool {
	r := m.settings.Retry
	return r.Type == RetryAll || r.Type == RetryFailed && failed || r.Type == RetryReturned && !failed
}

func (m *model) giveBack(names []string, asked, failed bool) {
	for _, name := range names {
		e := m.takeBack(name)
		e.redelivered = true
		if m.kind == Classic {
			m.insert(e, func(other entry) bool { return other.arrival > e.arrival })
			continue
		}
		e.count++
		limit := m.settings.DeliveryLimit
		switch {
		case limit >= 0 && int(e.count) > limit:
			m.die(e, DeliveryLimit)
		case m.delays(failed):
			e.until = m.now + min(m.settings.Retry.Min, m.settings.Retry.Max)
			m.delayed = append(m.delayed, e)
		case limit < 0 && asked:
			e.back = false
			m.put(e)
		default:
			e.back = true
			m.insert(e, func(other entry) bool { return !other.back })
		}
	}
	m.pump()
}

func (m *model) get(noAck bool) (name string) {
	m.used = m.now
	m.promote()
	m.expire()
	if len(m.ready) == 0 {
		m.totals.GotNothing++
		return ""
	}
	e := m.pop()
	if e.redelivered {
		m.totals.Redelivered++
	}
	if noAck {
		m.totals.GotNoAck++
	} else {
		m.totals.Got++
		m.unacked[e.name] = e
	}
	return e.name
}

func (m *model) purge() (names []string) {
	m.used = m.now
	for len(m.ready) > 0 {
		names = append(names, m.pop().name)
	}
	ready := len(names)
	for _, e := range m.delayed {
		names = append(names, e.name)
	}
	m.delayed = nil
	slices.Sort(names[ready:])
	return names
}

func (m *model) configure(s Settings) {
	m.settings = s
	m.used = m.now
	m.pump()
}

func (m *model) expired() bool {
	return m.settings.Expires >= 0 && len(m.consumers) == 0 && m.now-m.used >= m.settings.Expires
}

// deadline returns when the queue must be woken.
func (m *model) deadline() time.Duration {
	at := time.Duration(0)
	if len(m.ready) > 0 {
		at = m.ready[0].expires
	}
	if next := m.nextDelayed(); next >= 0 && (at == 0 || m.delayed[next].until < at) {
		at = m.delayed[next].until
	}
	if m.settings.Expires >= 0 && len(m.consumers) == 0 {
		if due := m.used + m.settings.Expires; at == 0 || due < at {
			at = due
		}
	}
	return at
}

// takeDead empties the dead letters.
func (m *model) takeDead() []string {
	m.cull()
	dead := m.dead
	m.dead = nil
	m.pump()
	return dead
}
