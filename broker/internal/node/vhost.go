package node

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Vhost is a virtual host: a set of exchanges, queues and policies.
type Vhost struct {
	Name string
	node *Node
	// Version changes with everything that routes depend on: bindings, policies, permissions.
	Version    atomic.Uint64
	Publishing TrafficCounter

	mu        sync.RWMutex
	exchanges map[string]*Exchange
	queues    map[string]*Queue
	policies  map[string]Policy           // of users
	operators map[string]Policy           // policies of operators
	former    map[queue.Type]queue.Totals // of deleted queues
	about     vhostDefinition             // metadata and limits
	deleted   bool
	gone      atomic.Bool // is being deleted
}

// Exchange routes messages to queues and other exchanges.
type Exchange struct {
	Name       string
	Kind       exchange.Kind
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  wire.Table
	vhost      *Vhost

	// All of these are under the lock of the virtual host.
	bindings  *exchange.Table[Destination]
	sources   map[*Exchange]struct{} // that this one is bound to
	policy    string
	alternate string // by argument or policy
}

// Destination is a queue or an exchange.
type Destination struct {
	Queue    *Queue
	Exchange *Exchange
}

func (d Destination) name() string {
	if d.Queue != nil {
		return d.Queue.Name
	}
	return d.Exchange.Name
}

func (d Destination) kind() string {
	if d.Queue != nil {
		return "queue"
	}
	return "exchange"
}

// durable reports whether a binding to it can survive a restart.
func (d Destination) durable() bool {
	if d.Queue != nil {
		return d.Queue.Durable && !d.Queue.Exclusive
	}
	return d.Exchange.Durable
}

func (d Destination) sources() map[*Exchange]struct{} {
	if d.Queue != nil {
		return d.Queue.sources
	}
	return d.Exchange.sources
}

// predeclared are the exchanges that every virtual host has.
var predeclared = []predeclaredExchange{
	{"", exchange.Direct, false},
	{"amq.direct", exchange.Direct, false},
	{"amq.fanout", exchange.Fanout, false},
	{"amq.headers", exchange.Headers, false},
	{"amq.match", exchange.Headers, false},
	{"amq.rabbitmq.trace", exchange.Topic, true},
	{"amq.topic", exchange.Topic, false},
}

func newVhost(n *Node, name string) *Vhost {
	v := &Vhost{Name: name, node: n, exchanges: make(map[string]*Exchange), queues: make(map[string]*Queue), policies: make(map[string]Policy), operators: make(map[string]Policy),
		former: make(map[queue.Type]queue.Totals)}
	for _, p := range predeclared {
		v.exchanges[p.name] = newExchange(v, Exchange{Name: p.name, Kind: p.kind, Durable: true, Internal: p.internal})
	}
	return v
}

func newExchange(v *Vhost, x Exchange) *Exchange {
	x.vhost = v
	x.bindings = v.node.Config.Compat.Bindings(x.Kind)
	x.bindings.Meter = &v.node.MemoryUse.topology
	x.sources = make(map[*Exchange]struct{})
	v.node.MemoryUse.topology.Add(x.weight())
	return &x
}

// Vhost returns a virtual host, or nil.
func (n *Node) Vhost(name string) *Vhost {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v := n.vhosts[name]; v != nil && !v.gone.Load() {
		return v
	}
	return nil
}

// Vhosts returns all virtual hosts, by name.
func (n *Node) Vhosts() []*Vhost {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(byName(n.vhosts), func(v *Vhost) bool { return v.gone.Load() })
}

// byName returns the values of a map in the order of their names.
func byName[T any](values map[string]T) []T {
	all := make([]T, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, values[name])
	}
	return all
}

// Queues returns the queues of all virtual hosts, by virtual host and name.
func (n *Node) Queues() iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		for _, v := range n.Vhosts() {
			for _, q := range v.Queues() {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// AddVhost creates a virtual host unless it exists.
func (n *Node) AddVhost(name string) error {
	if err := checkUTF8("virtual host", name); err != nil {
		return err
	}
	n.mu.Lock()
	var mark store.Mark
	if v := n.vhosts[name]; v != nil && v.gone.Load() {
		n.mu.Unlock()
		return fmt.Errorf("the virtual host %q is being deleted: try again", name)
	} else if v == nil {
		n.vhosts[name] = newVhost(n, name)
		mark = n.define(put(vhostKey(name), vhostDefinition{}))
	}
	n.mu.Unlock()
	return n.kept(mark)
}

// checkUTF8 refuses names that cannot be shown or stored.
func checkUTF8(kind, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("the name of the %s %q is not UTF-8", kind, name)
	}
	return nil
}

// DeleteVhost removes a virtual host with everything in it, and closes its connections.
func (n *Node) DeleteVhost(name string) error {
	n.mu.Lock()
	v := n.vhosts[name]
	if v != nil && !v.gone.CompareAndSwap(false, true) {
		v = nil
	}
	if v != nil {
		n.dropPermissions(name)
	}
	n.mu.Unlock()
	if v == nil {
		return fmt.Errorf("no virtual host %q", name)
	}
	n.clients.CloseConnections(fmt.Sprintf("vhost '%s' is deleted", name), func(_ string, in *Vhost) bool { return in == v })
	v.mu.Lock()
	v.deleted = true
	v.mu.Unlock()
	for _, q := range v.Queues() {
		_, _ = q.Delete(false, false)
	}
	v.mu.Lock()
	removed := []string{vhostKey(name)}
	for _, x := range v.exchanges {
		removed = append(removed, v.exchangeRemoval(x)...)
		x.bindings.Clear()
		n.MemoryUse.topology.Add(-x.weight())
	}
	for _, operator := range []bool{false, true} {
		for _, p := range v.policiesOf(operator) {
			removed = append(removed, p.key(name))
		}
	}
	v.mu.Unlock()
	n.mu.Lock()
	n.keepCounts(v)
	delete(n.vhosts, name) // the name can be used again when nothing of the old one is left
	mark := n.define(change{removed: removed})
	n.mu.Unlock()
	n.CheckMemory()
	return n.kept(mark)
}

// dropPermissions removes the permissions in a virtual host. The node is locked.
func (n *Node) dropPermissions(vhost string) {
	for _, u := range n.users {
		_, permitted := u.Permissions[vhost]
		_, restricted := u.TopicPermissions[vhost]
		if permitted || restricted {
			delete(u.Permissions, vhost)
			delete(u.TopicPermissions, vhost)
			n.defineUser(u)
		}
	}
}

// changed invalidates all cached routes.
func (v *Vhost) changed() { v.Version.Add(1) }

// Exchange returns an exchange, or nil.
func (v *Vhost) Exchange(name string) *Exchange {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.exchanges[name]
}

// Exchanges returns all exchanges, by name.
func (v *Vhost) Exchanges() []*Exchange {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return byName(v.exchanges)
}

// Queue returns a queue, or nil.
func (v *Vhost) Queue(name string) *Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.queues[name]
}

// Queues returns all queues, by name.
func (v *Vhost) Queues() []*Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return byName(v.queues)
}

// NoExchange is RabbitMQ's answer if an exchange does not exist.
func (v *Vhost) NoExchange(name string) error {
	return Refuse(wire.NotFound, "no %s", Resource("exchange", name, v.Name))
}

// NoQueue is RabbitMQ's answer if a queue does not exist.
func (v *Vhost) NoQueue(name string) error {
	return Refuse(wire.NotFound, "no %s", Resource("queue", name, v.Name))
}

func (v *Vhost) noVhost() error { return Refuse(wire.NotFound, "no vhost '%s'", v.Name) }

type predeclaredExchange struct {
	name     string
	kind     exchange.Kind
	internal bool
}
