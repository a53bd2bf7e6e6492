package admin

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/rehop/rehop/topology"
)

// users examines who may do what in the virtual host.
func (c *checkup) users() {
	clients := make(map[string]int) // connections, but for those of people
	remote := make(map[string]bool) // those that are connected from other machines
	for _, conn := range c.chart.connections {
		if !strings.HasPrefix(conn.Client.object.Name, adminName) {
			clients[conn.User]++
		}
		addr, err := netip.ParseAddr(conn.Peer)
		if err != nil || addr.IsLoopback() {
			continue
		}
		remote[conn.User] = true
		if conn.User == "guest" {
			c.find("user.guest", topology.Object{Kind: "connection", Name: conn.Name},
				c.embeddedOr("give it a user of its own: users in rehop.yaml", "rabbitmqctl delete_user guest, when other users do its work; leave loopback_users as it was"),
				"user guest is connected from %s", conn.Peer)
		}
	}
	for _, u := range c.chart.users {
		object := topology.Object{Kind: "user", Name: u.Name}
		permission, allowed := c.permission(u.Name)
		switch {
		case u.Name == "guest":
			c.findAs(Info, "user.guest", object, c.embeddedOr("nothing, if all programs run on this machine: guest may not log in from others; for those, name users in rehop.yaml", "rabbitmqctl change_password guest …, or delete_user guest"), "it exists")
		case !allowed:
			continue
		}
		switch {
		case u.has("administrator") && clients[u.Name] > 0:
			if c.embedded() && u.Name == "guest" && !remote["guest"] {
				continue // who can log in as guest is on this machine, and can read its files as well
			}
			c.find("user.administrator", object, "give applications users of their own, without tags: "+c.embeddedOr("users in rehop.yaml", "rabbitmqctl set_user_tags "+u.Name),
				"it has the tag administrator, and applications are connected as it")
		case !u.has("administrator") && allowed && everything(permission.Configure):
			c.wide(object)
		}
	}
}

// wide notes a user that may configure everything.
func (c *checkup) wide(user topology.Object) {
	const found = "it may configure everything in virtual host %q"
	vhost := c.admin.management.vhost
	if c.embedded() { // users of rehop.yaml may do everything, and that cannot be changed
		c.findAs(Info, "user.wide", user, "for a user that rehop.yaml does not name: "+c.ctl("", "PUT /api/permissions/%s/"+user.Name), found, vhost)
		return
	}
	c.find("user.wide", user, c.ctl("rabbitmqctl set_permissions -p %q "+user.Name+" '^(rehop\\.|its own names).*' …", ""), found, vhost)
}

func (c *checkup) permission(user string) (apiPermission, bool) {
	i := slices.IndexFunc(c.chart.permissions, func(p apiPermission) bool { return p.User == user && p.Vhost == c.admin.management.vhost })
	if i < 0 {
		return apiPermission{}, false
	}
	return c.chart.permissions[i], true
}

// everything reports whether a pattern lets every name pass.
func everything(pattern string) bool {
	return slices.Contains([]string{".*", "^.*$", "^.*", ".*$", "^", ".", ".+", "^.+$", "(.*)", "^(.*)$"}, pattern)
}
