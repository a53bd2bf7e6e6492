package admin

import (
	"net/netip"
	"slices"
	"strings"
)

// users examines who may do what in the virtual host.
func (c *checkup) users() {
	vhost := c.admin.management.vhost
	clients := make(map[string]int) // connections, but for those of people
	for _, conn := range c.chart.connections {
		if !strings.HasPrefix(conn.Client.object.Name, adminName) {
			clients[conn.User]++
		}
		if addr, err := netip.ParseAddr(conn.Peer); conn.User == "guest" && err == nil && !addr.IsLoopback() {
			c.find("user.guest", Object{Kind: "connection", Name: conn.Name}, "rabbitmqctl delete_user guest, when other users do its work; leave loopback_users as it was", "user guest is connected from %s", conn.Peer)
		}
	}
	for _, u := range c.chart.users {
		object := Object{Kind: "user", Name: u.Name}
		permission, allowed := c.permission(u.Name)
		switch {
		case u.Name == "guest":
			c.findAs(Info, "user.guest", object, "rabbitmqctl change_password guest …, or delete_user guest", "it exists")
		case !allowed:
			continue
		}
		switch {
		case u.has("administrator") && clients[u.Name] > 0:
			c.find("user.administrator", object, "give applications users of their own, without tags: rabbitmqctl set_user_tags "+u.Name, "it has the tag administrator, and applications are connected as it")
		case !u.has("administrator") && allowed && everything(permission.Configure):
			c.find("user.wide", object, "rabbitmqctl set_permissions -p "+vhost+" "+u.Name+" '^(rehop\\.|its own names).*' …", "it may configure everything in virtual host %q", vhost)
		}
	}
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
