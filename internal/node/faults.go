package node

import "sync/atomic"

// faults are what tests inject.
type faults struct {
	refuse atomic.Pointer[func(vhost, exchange, key string) bool]
	hold   atomic.Bool
}

// RefusePublishes has messages refused for which f is true; nil ends that.
func (n *Node) RefusePublishes(f func(vhost, exchange, key string) bool) {
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

// HoldConfirms keeps confirms back until it is called with false.
func (n *Node) HoldConfirms(hold bool) {
	n.faults.hold.Store(hold)
	if hold {
		return
	}
	for _, c := range n.Connections() {
		for _, ch := range c.Channels() {
			ch.releaseConfirms(n.safe(), (*outbox).shut)
		}
	}
}

// DropConnections cuts all connections without a word, and returns how many there were.
func (n *Node) DropConnections() int {
	all := n.Connections()
	for _, c := range all {
		_ = c.conn.Close()
	}
	return len(all)
}
