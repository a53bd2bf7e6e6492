package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
)

// everywhere stands for all virtual hosts that a user has no permission of its own in.
const everywhere = "*"

func (c *call) permissions() (any, error) {
	all := list{}
	for _, v := range c.node.Vhosts() {
		for _, u := range c.node.Users() {
			all = appendPermission(all, u, v.Name)
		}
	}
	return all, nil
}

func (c *call) permissionsInVhost() (any, error) {
	all := list{}
	for _, u := range c.node.Users() {
		all = appendPermission(all, u, c.vhost.Name)
	}
	return all, nil
}

func (c *call) permissionsOfUser() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	all := list{}
	for _, v := range c.node.Vhosts() {
		all = appendPermission(all, u, v.Name)
	}
	return all, nil
}

func appendPermission(all list, u *node.User, vhost string) list {
	p, ok := u.In(vhost)
	if !ok {
		return all
	}
	return append(all, object{"user": printable(u.Name), "vhost": printable(vhost), "configure": p.Configure, "write": p.Write, "read": p.Read})
}

func (c *call) onePermission() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	one := appendPermission(nil, u, c.vhost.Name)
	if len(one) == 0 {
		return nil, notFound()
	}
	return one[0], nil
}

func (c *call) putPermission() (any, error) {
	f, err := c.fields(maxBody, "configure", "write", "read")
	if err != nil {
		return nil, err
	}
	p, err := readPermission(f)
	if err != nil {
		return nil, err
	}
	u := c.node.User(c.path("user"))
	if u == nil {
		return nil, badRequest("vhost_or_user_not_found")
	}
	_, there := u.In(c.vhost.Name)
	_, err = c.node.EditUser(u.Name, false, func(u *node.User) { u.Permissions[c.vhost.Name] = p })
	return made(!there), err
}

func readPermission(f fields) (p node.Permission, err error) {
	for key, pattern := range map[string]*string{"configure": &p.Configure, "write": &p.Write, "read": &p.Read} {
		if *pattern, err = f.text(key, ""); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (c *call) deletePermission() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	if _, there := u.In(c.vhost.Name); !there {
		return nil, notFound()
	}
	others := c.node.Vhosts()
	_, err = c.node.EditUser(u.Name, false, func(u *node.User) {
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
