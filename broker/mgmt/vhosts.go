package mgmt

import "github.com/rehop/rehop/internal/node"

// vhosts lists those that the user may enter; who monitors sees all.
func (c *call) vhosts() (any, error) {
	all := list{}
	for _, v := range c.node.Vhosts() {
		if c.isMonitor() || c.sees(v.Name) {
			all = append(all, c.vhostObject(v))
		}
	}
	return all, nil
}

func (c *call) oneVhost() (any, error) { return c.vhostObject(c.vhost), nil }

func (a *api) vhostObject(v *node.Vhost) object {
	o := object{"name": printable(v.Name), "description": "", "tags": []string{}, "metadata": object{"description": "", "tags": []string{}},
		"default_queue_type": "undefined", "tracing": false, "cluster_state": object{a.node.Name(): "running"}}
	now, rates := a.sum([]*node.Vhost{v})
	now.messages(o, rates)
	if now.happened() {
		o["message_stats"] = now.allStats(rates)
	}
	return o
}

// sum adds up the figures of virtual hosts.
func (a *api) sum(vhosts []*node.Vhost) (now, rates figures) {
	for _, v := range vhosts {
		f := figuresOfVhost(v)
		now.add(f)
		rates.add(a.rates.of(v, f))
	}
	return now, rates
}

// putVhost makes a virtual host. Description and tags are taken and not kept; what would change how it behaves is refused.
func (c *call) putVhost() (any, error) {
	f, err := c.fields(maxBody)
	if err != nil {
		return nil, err
	}
	if tracing, err := f.flag("tracing"); err != nil {
		return nil, err
	} else if tracing {
		return nil, badRequest("this broker cannot trace messages; leave tracing out")
	}
	switch f["default_queue_type"] {
	case nil, "", "undefined", "classic":
	default:
		return nil, badRequest("this broker has no default queue type other than classic; declare queues with x-queue-type")
	}
	name := c.path("name")
	created := c.node.Vhost(name) == nil
	if err := c.node.AddVhost(name); err != nil || !created {
		return made(created), err
	}
	// Who makes a virtual host may do everything there.
	_, err = c.node.EditUser(c.user.Name, false, func(u *node.User) {
		if _, ok := u.In(name); !ok {
			u.Permissions[name] = node.Everything()
		}
	})
	return made(created), err
}

func (c *call) deleteVhost() (any, error) { return done, c.node.DeleteVhost(c.vhost.Name) }
