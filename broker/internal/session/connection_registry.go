package session

import (
	"fmt"
	"sync"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// connectionRegistry counts the connections of virtual hosts and users, and the channels of users, for their limits. It
// does not count the broker's own connections.
type connectionRegistry struct {
	mu       sync.Mutex
	inside   map[*Connection]*node.Vhost
	vhosts   map[*node.Vhost]int
	users    map[string]int
	channels map[string]int
}

func (s *connectionRegistry) init() {
	s.inside, s.vhosts = make(map[*Connection]*node.Vhost), make(map[*node.Vhost]int)
	s.users, s.channels = make(map[string]int), make(map[string]int)
}

// enterVhost counts a connection to a virtual host, unless the virtual host or the user has as many as it may.
func (n *Server) enterVhost(c *Connection, v *node.Vhost) error {
	if c.own {
		return nil
	}
	inVhost, ofUser := v.Limits(), n.LimitsOf(c.User)
	s := &n.registry
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit, reached := inVhost.Reached(node.MaxConnections, s.vhosts[v]); reached {
		return fmt.Errorf("access to vhost '%s' refused for user '%s': connection limit (%d) is reached", v.Name, c.User, limit)
	}
	if limit, reached := ofUser.Reached(node.MaxConnections, s.users[c.User]); reached {
		return fmt.Errorf("connection refused for user '%s': user connection limit (%d) is reached", c.User, limit)
	}
	s.inside[c] = v
	s.vhosts[v]++
	s.users[c.User]++
	return nil
}

// leave counts a connection no longer. It can be called more than once.
func (s *connectionRegistry) leave(c *Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, inside := s.inside[c]; inside {
		delete(s.inside, c)
		decrement(s.vhosts, v)
		decrement(s.users, c.User)
	}
}

// decrement removes a counter that becomes 0.
func decrement[K comparable](counters map[K]int, key K) {
	if counters[key]--; counters[key] == 0 {
		delete(counters, key)
	}
}

// enterChannel counts a channel, unless the user has as many as it may.
func (n *Server) enterChannel(c *Connection) error {
	if c.own {
		return nil
	}
	limits := n.LimitsOf(c.User)
	s := &n.registry
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit, reached := limits.Reached(node.MaxChannels, s.channels[c.User]); reached {
		return node.Refuse(wire.NotAllowed, c.node.Config.Compat.ChannelLimit(), c.User, limit)
	}
	s.channels[c.User]++
	return nil
}

func (s *connectionRegistry) leaveChannel(c *Connection) {
	if !c.own {
		s.mu.Lock()
		defer s.mu.Unlock()
		decrement(s.channels, c.User)
	}
}
