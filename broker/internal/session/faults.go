package session

import (
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/store"
)

// faults are the faults that tests inject.
type faults struct {
	refuse  matcher     // messages that are refused
	hold    matcher     // messages whose confirms are held
	holdAll atomic.Bool // all confirms are held
}

// matcher is a test's function that selects messages.
type matcher struct {
	function atomic.Pointer[func(exchange, key string) bool]
}

func (m *matcher) set(f func(exchange, key string) bool) {
	if f == nil {
		m.function.Store(nil)
	} else {
		m.function.Store(&f)
	}
}

func (m *matcher) matches(c *store.Content) bool {
	f := m.function.Load()
	return f != nil && (*f)(c.Exchange, c.Key)
}

// RefusePublishes refuses messages for which f is true; nil ends that.
func (n *Server) RefusePublishes(f func(exchange, key string) bool) { n.faults.refuse.set(f) }

// HoldConfirmsOf holds the confirms of messages for which f is true, until it is called with nil.
func (n *Server) HoldConfirmsOf(f func(exchange, key string) bool) {
	n.faults.hold.set(f)
	if f == nil {
		n.eachChannel(func(ch *Channel) {
			ch.confirms.restore()
			ch.releaseConfirms(n.Durable(), (*socketWriter).unlock)
		})
	}
}

func (n *Server) eachChannel(do func(ch *Channel)) {
	for _, c := range n.openConnections() {
		for _, ch := range c.Channels() {
			do(ch)
		}
	}
}

// HoldConfirms holds all confirms until it is called with false.
func (n *Server) HoldConfirms(hold bool) {
	n.faults.holdAll.Store(hold)
	if !hold {
		n.eachChannel(func(ch *Channel) { ch.releaseConfirms(n.Durable(), (*socketWriter).unlock) })
	}
}

// DropConnections closes all sockets without connection.close, and returns how many there were.
func (n *Server) DropConnections() int {
	all := n.openConnections()
	for _, c := range all {
		_ = c.conn.Close()
	}
	return len(all)
}
