package node

import (
	"fmt"
	"sync"

	"github.com/rehop/rehop/internal/wire"
)

// census counts the connections of virtual hosts and users, and the channels of users, for their limits. The broker's own are not counted.
type census struct {
	mu       sync.Mutex
	inside   map[*Connection]*Vhost
	vhosts   map[*Vhost]int
	users    map[string]int
	channels map[string]int
}

func (s *census) init() {
	s.inside, s.vhosts = make(map[*Connection]*Vhost), make(map[*Vhost]int)
	s.users, s.channels = make(map[string]int), make(map[string]int)
}

// enterVhost counts a connection that is about to enter a virtual host, unless that or its user has as many as it may.
func (n *Node) enterVhost(c *Connection, v *Vhost) error {
	if c.own {
		return nil
	}
	inVhost, ofUser := v.Limits(), Limits(nil)
	if u := n.User(c.User); u != nil {
		ofUser = u.Limits
	}
	s := &n.census
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit, reached := inVhost.reached(MaxConnections, s.vhosts[v]); reached {
		return fmt.Errorf("access to vhost '%s' refused for user '%s': connection limit (%d) is reached", v.Name, c.User, limit)
	}
	if limit, reached := ofUser.reached(MaxConnections, s.users[c.User]); reached {
		return fmt.Errorf("connection refused for user '%s': user connection limit (%d) is reached", c.User, limit)
	}
	s.inside[c] = v
	s.vhosts[v]++
	s.users[c.User]++
	return nil
}

// leave ends that, once.
func (s *census) leave(c *Connection) {
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
func (n *Node) enterChannel(c *Connection) error {
	if c.own {
		return nil
	}
	limits := n.limitsOf(c.User)
	s := &n.census
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit, reached := limits.reached(MaxChannels, s.channels[c.User]); reached {
		return refuse(wire.NotAllowed, c.node.config.Compat.channelLimit(), c.User, limit)
	}
	s.channels[c.User]++
	return nil
}

func (s *census) leaveChannel(c *Connection) {
	if c.own {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels[c.User]--; s.channels[c.User] == 0 {
		delete(s.channels, c.User)
	}
}
