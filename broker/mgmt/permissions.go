package mgmt

import "github.com/rehop/rehop/broker/internal/node"

// everywhere is the key of the permission for all virtual hosts in which a user has no permission of its own.
const everywhere = "*"

// permissions lists those of all users, in the virtual host of the path or in all.
func (c *call) permissions() (any, error) { return c.permissionsOf(c.node.Users()...), nil }

func (c *call) permissionsOfUser(u *node.User) (any, error) { return c.permissionsOf(u), nil }

func (c *call) permissionsOf(users ...*node.User) list {
	all := list{}
	for _, v := range c.pathVhosts() {
		for _, u := range users {
			if p, ok := u.Permission(v.Name); ok {
				all = append(all, object{"user": printable(u.Name), "vhost": printable(v.Name), "configure": p.Configure, "write": p.Write, "read": p.Read})
			}
		}
	}
	return all
}

func (c *call) onePermission(u *node.User) (any, error) {
	one := c.permissionsOf(u)
	if len(one) == 0 {
		return nil, notFound()
	}
	return one[0], nil
}

func (c *call) putPermission() (any, error) {
	f := c.fields(maxBody, "configure", "write", "read")
	p, u := f.permission(), c.node.User(c.path("user"))
	if u == nil {
		f.fail("vhost_or_user_not_found")
	}
	if f.err != nil {
		return nil, f.err
	}
	_, exists := u.Permission(c.vhost.Name)
	_, err := c.node.EditUser(u.Name, false, func(u *node.User) { u.Permissions[c.vhost.Name] = p })
	return made(!exists), err
}

func (f *fields) permission() node.Permission {
	return node.Permission{Configure: f.text("configure", ""), Write: f.text("write", ""), Read: f.text("read", "")}
}

// deletePermission deletes the permission of a user in a virtual host. A permission for all virtual hosts becomes one for
// each of the others.
func (c *call) deletePermission(u *node.User) (any, error) {
	if _, exists := u.Permission(c.vhost.Name); !exists {
		return nil, notFound()
	}
	others := c.node.Vhosts()
	_, err := c.node.EditUser(u.Name, false, func(u *node.User) {
		if p, ok := u.Permissions[everywhere]; ok {
			for _, v := range others {
				if _, own := u.Permissions[v.Name]; !own {
					u.Permissions[v.Name] = p
				}
			}
			delete(u.Permissions, everywhere)
		}
		delete(u.Permissions, c.vhost.Name)
	})
	return done, err
}
