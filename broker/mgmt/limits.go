package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
)

// vhostLimits lists the limits of virtual hosts that have some.
func (c *call) vhostLimits() (any, error) {
	vhosts := c.visible()
	if c.isMonitor() {
		vhosts = c.node.Vhosts()
		if c.vhost != nil {
			vhosts = []*node.Vhost{c.vhost}
		}
	}
	all := list{}
	for _, v := range vhosts {
		if limits := v.Limits(); len(limits) > 0 {
			all = append(all, object{"vhost": printable(v.Name), "value": limits})
		}
	}
	return all, nil
}

// invalid is how RabbitMQ words what a parameter must not be.
func invalid(reason string) error { return badRequest("Validation failed\n\n" + reason + "\n") }

func (c *call) putVhostLimit() (any, error) {
	f, err := c.fields(maxBody, "value")
	if err != nil {
		return nil, err
	}
	name := c.path("name")
	limits, fault := node.ReadLimits(map[string]any{name: f["value"]}, "limits", node.VhostLimits()...)
	if fault != "" {
		return nil, invalid(fault)
	}
	return done, c.vhost.EditLimits(func(l node.Limits) { l[name] = limits[name] })
}

func (c *call) deleteVhostLimit() (any, error) {
	return done, c.vhost.EditLimits(func(l node.Limits) { delete(l, c.path("name")) })
}

// userLimits lists the limits of users who have some. Who is no administrator sees its own.
func (c *call) userLimits() (any, error) {
	all := list{}
	for _, u := range c.node.Users() {
		if len(u.Limits) > 0 && (c.isAdministrator() || u.Name == c.user.Name) {
			all = append(all, object{"user": printable(u.Name), "value": u.Limits})
		}
	}
	return all, nil
}

func (c *call) limitsOfUser() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	all := list{}
	if len(u.Limits) > 0 && (c.isAdministrator() || u.Name == c.user.Name) {
		all = append(all, object{"user": printable(u.Name), "value": u.Limits})
	}
	return all, nil
}

func (c *call) putUserLimit() (any, error) {
	f, err := c.fields(maxBody, "value")
	if err != nil {
		return nil, err
	}
	if c.node.User(c.path("user")) == nil {
		return nil, badRequest([]any{"no_such_user", c.path("user")})
	}
	limits, fault := node.ReadLimits(map[string]any{c.path("name"): f["value"]}, "user-limits", node.UserLimits()...)
	if fault != "" {
		return nil, badRequest(fault)
	}
	_, err = c.node.EditUser(c.path("user"), false, func(u *node.User) { addLimits(u, limits) })
	return done, err
}

// addLimits sets limits of a user, and leaves the others.
func addLimits(u *node.User, limits node.Limits) {
	if u.Limits == nil && len(limits) > 0 {
		u.Limits = make(node.Limits)
	}
	for name, limit := range limits {
		u.Limits[name] = limit
	}
}

func (c *call) deleteUserLimit() (any, error) {
	if _, err := c.theUser(); err != nil {
		return nil, err
	}
	_, err := c.node.EditUser(c.path("user"), false, func(u *node.User) { delete(u.Limits, c.path("name")) })
	return done, err
}

// shownLimits is an object also where there are none.
func shownLimits(l node.Limits) any {
	if len(l) == 0 {
		return object{}
	}
	return l
}
