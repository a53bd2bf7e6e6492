package mgmt

import (
	"maps"

	"github.com/rehop/rehop/broker/internal/node"
)

// vhostLimits lists the limits of virtual hosts that have limits.
func (c *call) vhostLimits() (any, error) {
	all := list{}
	for _, v := range c.pathVhosts() {
		if limits := v.Limits(); len(limits) > 0 && (c.isMonitor() || c.sees(v.Name)) {
			all = append(all, object{"vhost": printable(v.Name), "value": limits})
		}
	}
	return all, nil
}

// invalid is RabbitMQ's error for an invalid parameter.
func invalid(reason string) error { return badRequest("Validation failed\n\n" + reason + "\n") }

func (c *call) putVhostLimit() (any, error) {
	f, name := c.fields(maxBody, "value"), c.path("name")
	if f.err != nil {
		return nil, f.err
	}
	limits, fault := node.ReadLimits(map[string]any{name: f.values["value"]}, "limits", node.VhostLimits()...)
	if fault != "" {
		return nil, invalid(fault)
	}
	return done, c.vhost.EditLimits(func(l node.Limits) { l[name] = limits[name] })
}

func (c *call) deleteVhostLimit() (any, error) {
	return done, c.vhost.EditLimits(func(l node.Limits) { delete(l, c.path("name")) })
}

// userLimits lists the limits of users that have limits.
func (c *call) userLimits() (any, error) { return c.limitsOf(c.node.Users()...), nil }

func (c *call) limitsOfUser(u *node.User) (any, error) { return c.limitsOf(u), nil }

// limitsOf lists what an administrator can see; other users see their own limits.
func (c *call) limitsOf(users ...*node.User) list {
	all := list{}
	for _, u := range users {
		if len(u.Limits) > 0 && (c.isAdministrator() || u.Name == c.user.Name) {
			all = append(all, object{"user": printable(u.Name), "value": u.Limits})
		}
	}
	return all
}

func (c *call) putUserLimit() (any, error) {
	f, user := c.fields(maxBody, "value"), c.path("user")
	if f.err == nil && c.node.User(user) == nil {
		f.fail([]any{"no_such_user", user})
	}
	limits := f.userLimits(map[string]any{c.path("name"): f.values["value"]})
	_, err := c.editUser(f, user, false, func(u *node.User) { addLimits(u, limits) })
	return done, err
}

func (f *fields) userLimits(given map[string]any) node.Limits {
	limits, fault := node.ReadLimits(given, "user-limits", node.UserLimits()...)
	if fault != "" {
		f.fail(fault)
	}
	return limits
}

// addLimits sets limits of a user and keeps the others.
func addLimits(u *node.User, limits node.Limits) {
	if u.Limits == nil && len(limits) > 0 {
		u.Limits = make(node.Limits)
	}
	maps.Copy(u.Limits, limits)
}

func (c *call) deleteUserLimit(u *node.User) (any, error) {
	_, err := c.node.EditUser(u.Name, false, func(u *node.User) { delete(u.Limits, c.path("name")) })
	return done, err
}

// shownLimits returns an empty object if there are no limits.
func shownLimits(l node.Limits) any {
	if len(l) == 0 {
		return object{}
	}
	return l
}
