package session

import (
	"fmt"
	"sync"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// connectionRegistry counts the connections of virtual hosts and users, and the channels of users, for their limits. The broker's own are not counted.
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

// enterVhost counts a connection that is about to enter a virtual host, unless that or its user has as many as it may.
func (n *Server) enterVhost(c *Connection, v *node.Vhost) error {
	if c.own {
		return nil
	}
	inVhost, ofUser := v.Limits(), node.Limits(nil)
	if u := n.User(c.User); u != nil {
		ofUser = u.Limits
	}
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

// leave ends that, once.
func (s *connectionRegistry) leave(c *Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, inside := s.inside[c]
	if !inside {
		return
	}
	delete(s.inside, c)
	if s.vhosts[v]--; s.vhosts[v] == 0 {
		delete(s.vhosts, v)
	}
	if s.users[c.User]--; s.users[c.User] == 0 {
		delete(s.users, c.User)
	}
}

// enterChannel counts a channel that is about to be opened, unless the user has as many as it may.
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
	if c.own {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels[c.User]--; s.channels[c.User] == 0 {
		delete(s.channels, c.User)
	}
}
