package node

import (
	"fmt"
	"maps"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// This file is for management. It returns copies, and each change is one step.

// Began returns when the node was opened.
func (n *Node) Began() time.Time { return n.began }

// Memory returns how much memory messages and topology use, and the limit above which publishers are blocked.
func (n *Node) Memory() (used, limit int64) { return n.UsedMemory(), n.Config.MemoryLimit }

// DiskReserve returns how many bytes of the disk stay free; 0: nothing is kept on disk.
func (n *Node) DiskReserve() int64 {
	if n.Store == nil {
		return 0
	}
	return n.Config.Store.DiskReserve
}

// DiskFree returns how many bytes are free; not ok: nothing is kept on disk, or it is unknown.
func (n *Node) DiskFree() (free int64, ok bool) {
	if n.Store == nil {
		return 0, false
	}
	free, err := n.Store.Free()
	return free, err == nil
}

// EditUser changes a user in one step, or creates it if it does not exist and create is set. edit must not call the node.
func (n *Node) EditUser(name string, create bool, edit func(*User)) (created bool, err error) {
	n.mu.Lock()
	old := n.users[name]
	switch {
	case old == nil && !create:
		n.mu.Unlock()
		return false, fmt.Errorf("no user %q", name)
	case old == nil && n.Excludes(name):
		n.mu.Unlock()
		return false, errExcluded(name)
	case old != nil && old.InProcess:
		n.mu.Unlock()
		return false, old.isPrivate()
	}
	u := &User{Name: name, LoopbackOnly: name == DefaultUser}
	if old != nil {
		u = old.clone()
		if u.initial {
			u.given, u.initial = false, false // from now on it is a user like others, and on disk
		}
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

// BindNamed creates a binding between existing resources.
func (v *Vhost) BindNamed(b Binding) error {
	source := v.Exchange(b.Source)
	if source == nil {
		return v.NoExchange(b.Source)
	}
	d, missing := Destination{Queue: v.Queue(b.Destination)}, v.NoQueue
	if b.Kind == "exchange" {
		d, missing = Destination{Exchange: v.Exchange(b.Destination)}, v.NoExchange
	}
	if d == (Destination{}) {
		return missing(b.Destination)
	}
	return v.Bind(source, d, b.Key, b.Arguments)
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
	p, ok := v.policiesOf(operator)[name]
	p.Definition = maps.Clone(p.Definition)
	return p, ok
}

// EffectivePolicy returns the settings of the policies that apply to the queue.
func (q *Queue) EffectivePolicy() map[string]any {
	v := q.Vhost
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(merged(v.policies[q.policy].Definition, v.operators[q.operatorPolicy].Definition))
}

// ShownTimeout is the consumer timeout that RabbitMQ's API shows for all consumers of the queue: without that in the
// consumer's own arguments, and also where it does not apply; 0: no limit.
func (q *Queue) ShownTimeout() time.Duration {
	if own := q.Core.Settings().ConsumerTimeout; own >= 0 {
		return own
	}
	return q.Vhost.node.Config.ConsumerTimeout
}

// ShownArguments returns the arguments that clients see. From 4.0 on they have the queue type even if the declaration had none.
func (q *Queue) ShownArguments() wire.Table { return q.Vhost.node.Config.Compat.withType(q.Arguments) }

// Policies returns the names of the policies of users and of operators that apply to the queue, or "".
func (q *Queue) Policies() (policy, operatorPolicy string) {
	q.Vhost.mu.RLock()
	defer q.Vhost.mu.RUnlock()
	return q.policy, q.operatorPolicy
}
