package session

import "sync/atomic"

// faults are what tests inject.
type faults struct {
	refuse atomic.Pointer[func(vhost, exchange, key string) bool]
	holdOf atomic.Pointer[func(vhost, exchange, key string) bool]
	hold   atomic.Bool
}

// RefusePublishes has messages refused for which f is true; nil ends that.
func (n *Server) RefusePublishes(f func(vhost, exchange, key string) bool) {
	if f == nil {
		n.faults.refuse.Store(nil)
		return
	}
	n.faults.refuse.Store(&f)
}

func (f *faults) refuses(vhost, exchange, key string) bool {
	refuse := f.refuse.Load()
	return refuse != nil && (*refuse)(vhost, exchange, key)
}

// HoldConfirmsOf keeps the confirms of messages back for which f is true, until it is called with nil.
func (n *Server) HoldConfirmsOf(f func(vhost, exchange, key string) bool) {
	if f != nil {
		n.faults.holdOf.Store(&f)
		return
	}
	n.faults.holdOf.Store(nil)
	n.eachChannel(func(ch *Channel) {
		ch.confirms.restore()
		ch.releaseConfirms(n.Durable(), (*socketWriter).unlock)
	})
}

func (f *faults) holds(vhost, exchange, key string) bool {
	hold := f.holdOf.Load()
	return hold != nil && (*hold)(vhost, exchange, key)
}

func (n *Server) eachChannel(do func(ch *Channel)) {
	for _, c := range n.openConnections() {
		for _, ch := range c.Channels() {
			do(ch)
		}
	}
}

// HoldConfirms keeps confirms back until it is called with false.
func (n *Server) HoldConfirms(hold bool) {
	n.faults.hold.Store(hold)
	if hold {
		return
	}
	n.eachChannel(func(ch *Channel) { ch.releaseConfirms(n.Durable(), (*socketWriter).unlock) })
}

// DropConnections cuts all connections without a word, and returns how many there were.
func (n *Server) DropConnections() int {
	all := n.openConnections()
	for _, c := range all {
		_ = c.conn.Close()
	}
	return len(all)
}
