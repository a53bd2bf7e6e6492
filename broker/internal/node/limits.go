package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// Limits bound what a virtual host or a user may have at a time, by RabbitMQ's names. A missing or negative limit is none.
type Limits map[string]int64

// The limits: connections of virtual hosts and users, queues of virtual hosts, channels of users.
const (
	MaxConnections = "max-connections"
	MaxQueues      = "max-queues"
	MaxChannels    = "max-channels"
)

// Reached reports whether a limit allows no more than what there is.
func (l Limits) Reached(name string, have int) (limit int64, yes bool) {
	limit, there := l[name]
	return limit, there && limit >= 0 && int64(have) >= limit
}

// ReadLimits reads the limits in a JSON object, which may have these names. The fault is RabbitMQ's text, with about in it.
func ReadLimits(object map[string]any, about string, names ...string) (limits Limits, fault string) {
	limits = make(Limits)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		if !slices.Contains(names, name) {
			return nil, fmt.Sprintf("Unrecognised terms [{%s,%s}] in %s", erlang.Binary(name), jsonTerm(value), about)
		}
		text, _ := value.(json.Number)
		n, err := strconv.ParseInt(text.String(), 10, 64)
		if err != nil {
			return nil, fmt.Sprintf("%s should be a number, actually was %s", name, jsonTerm(value))
		}
		limits[name] = n
	}
	return limits, ""
}

// jsonTerm prints a value as Erlang does.
func jsonTerm(value any) string {
	if n, ok := value.(json.Number); ok {
		return n.String()
	}
	return erlang.Term(value)
}

// VhostLimits are the names of limits of virtual hosts.
func VhostLimits() []string { return []string{MaxConnections, MaxQueues} }

// UserLimits are the names of limits of users.
func UserLimits() []string { return []string{MaxConnections, MaxChannels} }

// LimitsOf returns the limits of a user.
func (n *Node) LimitsOf(user string) Limits {
	n.mu.Lock()
	defer n.mu.Unlock()
	if u := n.users[user]; u != nil {
		return u.Limits // never changed in place
	}
	return nil
}

// Limits returns the limits of the virtual host.
func (v *Vhost) Limits() Limits {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(v.about.Limits)
}

// EditLimits changes the limits of the virtual host. edit must not call the node.
func (v *Vhost) EditLimits(edit func(Limits)) error {
	return v.edit(func(a *vhostDefinition) {
		limits := maps.Clone(a.Limits)
		if limits == nil {
			limits = make(Limits)
		}
		edit(limits)
		a.Limits = limits
	})
}

// queueRoom refuses a queue if the virtual host has as many as it may. The virtual host is locked.
func (v *Vhost) queueRoom(name string) error {
	if limit, reached := v.about.Limits.Reached(MaxQueues, len(v.queues)); reached {
		return Refuse(wire.PreconditionFailed, "cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", name, v.Name, limit)
	}
	return nil
}

// CheckQueueLimit refuses a queue if the virtual host has as many as it may.
func (v *Vhost) CheckQueueLimit(name string) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.queueRoom(name)
}
