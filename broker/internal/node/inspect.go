package node

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// What follows is for those who look after a node: they see copies, and change things by whole steps.

// Name is the name of the node and of its cluster.
func (n *Node) Name() string { return n.Config.Name }

// Version is the release that the broker reports to clients.
func (n *Node) Version() string { return n.Config.Version }

// Compat is the release whose rules hold.
func (n *Node) Compat() Compat { return n.Config.Compat }

// Began is when the node was opened.
func (n *Node) Began() time.Time { return n.began }

// Memory returns how much memory messages and topology take, and with how much publishers are blocked.
func (n *Node) Memory() (used, limit int64) { return n.UsedMemory(), n.Config.MemoryLimit }

// DiskReserve is how many bytes of the disk stay free; 0: nothing is kept on disk.
func (n *Node) DiskReserve() int64 {
	if n.Store == nil {
		return 0
	}
	return n.Config.Store.DiskReserve
}

// DiskFree is how many bytes can yet be written; not ok: nothing is kept on disk, or nobody can tell.
func (n *Node) DiskFree() (free int64, ok bool) {
	if n.Store == nil {
		return 0, false
	}
	free, err := n.Store.Free()
	return free, err == nil
}

// Login returns the user if the password is right, else nil. It takes as long for users that are not there.
func (n *Node) Login(name, password string) *User {
	u := n.User(name)
	if u == nil {
		nobody := User{Hash: strings.Repeat("A", base64.StdEncoding.EncodedLen(4+sha256.Size))}
		nobody.knows(password)
		return nil
	}
	if !u.knows(password) {
		return nil
	}
	return u
}

// EditUser changes a user in one step, or makes one if there is none and create is set. edit must not call the node.
func (n *Node) EditUser(name string, create bool, edit func(*User)) (created bool, err error) {
	n.mu.Lock()
	old := n.users[name]
	if old == nil && !create {
		n.mu.Unlock()
		return false, fmt.Errorf("no user %q", name)
	}
	u := &User{Name: name}
	if old != nil {
		u = old.clone()
	}
	if u.Permissions == nil {
		u.Permissions = make(map[string]Permission)
	}
	edit(u)
	if u.Password != "" {
		u.Hash, u.Password = HashPassword(u.Password), ""
	}
	if err := u.checkPermissions(); err != nil {
		n.mu.Unlock()
		return false, err
	}
	n.users[name] = u
	mark := n.defineUser(u)
	n.mu.Unlock()
	n.permissionsChanged()
	return old == nil, n.kept(mark)
}

func (u *User) checkPermissions() error {
	for vhost, p := range u.Permissions {
		for _, pattern := range []string{p.Configure, p.Write, p.Read} {
			if _, err := compilePermission(pattern); err != nil {
				return fmt.Errorf("permission of user %q in virtual host %q: %w", u.Name, vhost, err)
			}
		}
	}
	return u.checkTopics()
}

// BindNamed binds what is there by name.
func (v *Vhost) BindNamed(b Binding) error {
	source := v.Exchange(b.Source)
	if source == nil {
		return v.NoExchange(b.Source)
	}
	if b.Kind == "exchange" {
		to := v.Exchange(b.Destination)
		if to == nil {
			return v.NoExchange(b.Destination)
		}
		return v.Bind(source, Destination{Exchange: to}, b.Key, b.Arguments)
	}
	to := v.Queue(b.Destination)
	if to == nil {
		return v.NoQueue(b.Destination)
	}
	return v.Bind(source, Destination{Queue: to}, b.Key, b.Arguments)
}

// Policy returns the name of the policy that applies to the exchange, or "".
func (x *Exchange) Policy() string {
	x.vhost.mu.RLock()
	defer x.vhost.mu.RUnlock()
	return x.policy
}

// Policy returns a policy of users or of operators.
func (v *Vhost) Policy(name string, operator bool) (Policy, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p, ok := v.rank(operator)[name]
	p.Definition = maps.Clone(p.Definition)
	return p, ok
}

// EffectivePolicy returns what the policies that apply to the queue say together.
func (q *Queue) EffectivePolicy() map[string]any {
	v := q.Vhost
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(merged(v.policies[q.policy].Definition, v.operators[q.operatorPolicy].Definition))
}

// ShownTimeout is how long a client may hold a delivery of the queue, as RabbitMQ's API shows it for all its consumers: without what the consumer
// itself asked for, and also where it does not hold. 0: without limit.
func (q *Queue) ShownTimeout() time.Duration {
	if own := q.Core.Settings().ConsumerTimeout; own >= 0 {
		return own
	}
	return q.Vhost.node.Config.ConsumerTimeout
}

// ShownArguments are the arguments of the queue as clients see them: from 4.0 on they have its type even if the declaration had none.
func (q *Queue) ShownArguments() wire.Table { return q.Vhost.node.Config.Compat.withType(q.Arguments) }

// VhostName returns the name of the queue's virtual host.
func (q *Queue) VhostName() string { return q.Vhost.Name }

// SingleActive reports whether one consumer at a time is served.
func (q *Queue) SingleActive() bool { return SingleActive(q.Arguments) }

// Policies returns the names of the policies of users and of operators that apply to the queue, or "".
func (q *Queue) Policies() (policy, operatorPolicy string) {
	q.Vhost.mu.RLock()
	defer q.Vhost.mu.RUnlock()
	return q.policy, q.operatorPolicy
}
