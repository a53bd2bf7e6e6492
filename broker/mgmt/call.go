package mgmt

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

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
	vhost    *node.Vhost       // the one in the path; nil: none, or it does not exist
	body     *fields           // of the request; nil: no handler has read it
}

func (c *call) path(name string) string { return c.values[name] }

// role is which users may use a route. The zero value allows nobody.
type role int

const (
	anyUser            role = iota + 1 // with one of the tags
	vhostUser                          // with a permission in the virtual host
	vhostUserOrMonitor                 // one of both
	policymaker                        // with a permission in the virtual host and the tag policymaker
	monitor                            // with the tag monitoring
	monitorOrSelf                      // with the tag monitoring, or the user in the path
	administrator                      // with the tag administrator, which allows everything
)

// login authenticates the user.
func (c *call) login() error {
	name, password, given := c.r.BasicAuth()
	if !given {
		return unauthenticated("No credentials")
	}
	user, err := c.node.Login(c.peer(), name, password)
	var throttled *node.ThrottledError
	switch {
	case errors.As(err, &throttled):
		c.w.Header().Set("Retry-After", strconv.Itoa(int(throttled.Seconds()/time.Second)))
		return &failure{http.StatusTooManyRequests, "too_many_requests", throttled.Error()}
	case errors.Is(err, node.ErrLoopbackOnly):
		return unauthorised("User can only log in via localhost")
	case err != nil:
		return unauthenticated("Login failed")
	}
	c.user, c.password = user, password
	if !c.has("management", "policymaker", "monitoring", "administrator") {
		return unauthorised("Not management user")
	}
	return nil
}

// peer uses the address of the connection, never a header.
func (c *call) peer() node.Peer {
	local, _ := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return node.PeerAt(c.r.RemoteAddr, local)
}

func (c *call) has(tags ...string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(c.user.Tags, tag) })
}

func (c *call) isAdministrator() bool { return c.has("administrator") }
func (c *call) isMonitor() bool       { return c.has("administrator", "monitoring") }

// permit returns an error if the user lacks a role.
func (c *call) permit(needs role) error {
	mayEnter := c.vhost == nil || c.sees(c.vhost.Name)
	switch needs {
	case anyUser:
		return nil
	case vhostUser, vhostUserOrMonitor:
		if mayEnter || needs == vhostUserOrMonitor && c.isMonitor() {
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
	case monitorOrSelf:
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

// sees reports whether the user has access to a virtual host.
func (c *call) sees(vhost string) bool {
	if c.isAdministrator() {
		return true
	}
	_, ok := c.user.Permission(vhost)
	return ok
}

// pathVhosts returns the virtual host of the path, or all if the path has none.
func (c *call) pathVhosts() []*node.Vhost {
	if c.vhost != nil {
		return []*node.Vhost{c.vhost}
	}
	return c.node.Vhosts()
}

// visible returns those of pathVhosts that the user has access to.
func (c *call) visible() []*node.Vhost {
	return slices.DeleteFunc(c.pathVhosts(), func(v *node.Vhost) bool { return !c.sees(v.Name) })
}

// listOf returns a handler that lists everything of one kind in the visible virtual hosts.
func listOf[T any](items func(*node.Vhost) []T, describe func(*call, *node.Vhost, T) object) func(*call) (any, error) {
	return func(c *call) (any, error) {
		all := list{}
		for _, v := range c.visible() {
			for _, item := range items(v) {
				all = append(all, describe(c, v, item))
			}
		}
		return all, nil
	}
}

// ofUser returns a handler for the user in the path, who must exist.
func ofUser(serve func(*call, *node.User) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		u := c.node.User(c.path("user"))
		if u == nil || u.InProcess {
			return nil, notFound()
		}
		return serve(c, u)
	}
}
