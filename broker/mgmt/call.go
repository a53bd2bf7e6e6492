package mgmt

import (
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
)

// call is one request.
type call struct {
	*api
	w        http.ResponseWriter
	r        *http.Request
	user     *node.User
	password string
	values   map[string]string // of the names in the route's pattern
	vhost    *node.Vhost       // that the path names, if it is there
}

// path returns a name in the path.
func (c *call) path(name string) string { return c.values[name] }

// role is what a route asks of a user. The zero value lets nobody in.
type role int

const (
	anybody       role = iota + 1 // with one of the tags
	member                        // who may enter the virtual host
	onlooker                      // who may enter it, or see what others do
	policymaker                   // who may change policies there
	monitor                       // who may see what others do
	account                       // who may see what others do, or is the user whom the path names
	administrator                 // who may do everything
)

// login finds out who asks.
func (c *call) login() error {
	name, password, given := c.r.BasicAuth()
	if !given {
		return unauthenticated("No credentials")
	}
	c.user, c.password = c.node.Login(name, password), password
	switch {
	case c.user == nil:
		return unauthenticated("Login failed")
	case c.user.LoopbackOnly && !c.fromThisMachine():
		return unauthorised("User can only log in via localhost")
	case !c.has("management", "policymaker", "monitoring", "administrator"):
		return unauthorised("Not management user")
	}
	return nil
}

// fromThisMachine judges by the peer's own address, never by a header.
func (c *call) fromThisMachine() bool {
	if local, ok := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && (local.Network() == "unix" || local.Network() == "pipe") {
		return true
	}
	peer, err := netip.ParseAddrPort(c.r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// has reports whether the user has one of the tags.
func (c *call) has(tags ...string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(c.user.Tags, tag) })
}

func (c *call) isAdministrator() bool { return c.has("administrator") }
func (c *call) isMonitor() bool       { return c.has("administrator", "monitoring") }

// permit refuses those who lack a role.
func (c *call) permit(needs role) error {
	mayEnter := c.vhost == nil || c.sees(c.vhost.Name)
	switch needs {
	case anybody:
		return nil
	case member, onlooker:
		if mayEnter || needs == onlooker && c.isMonitor() {
			return nil
		}
		return unauthorised("User not authorised to access virtual host")
	case policymaker:
		if c.isAdministrator() || c.has("policymaker") && mayEnter {
			return nil
		}
		return unauthorised("User not authorised to access object")
	case monitor:
		if c.isMonitor() {
			return nil
		}
		return unauthorised("Not monitor user")
	case account:
		if c.isMonitor() || c.user.Name == c.path("user") {
			return nil
		}
		return unauthorised("User not authorised to access object")
	case administrator:
		if c.isAdministrator() {
			return nil
		}
		return unauthorised("Not administrator user")
	}
	return unauthorised("Nobody may do this")
}

// sees reports whether the user may look into a virtual host.
func (c *call) sees(vhost string) bool {
	if c.isAdministrator() {
		return true
	}
	_, ok := c.user.In(vhost)
	return ok
}

// visible returns the virtual hosts that a list is about: the one of the path, or all that the user may look into.
func (c *call) visible() []*node.Vhost {
	all := c.node.Vhosts()
	if c.vhost != nil {
		all = []*node.Vhost{c.vhost}
	}
	return slices.DeleteFunc(all, func(v *node.Vhost) bool { return !c.sees(v.Name) })
}
