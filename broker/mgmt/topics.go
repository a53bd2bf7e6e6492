package mgmt

import (
	"maps"
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
)

// topicPermissions lists those of all users, in the virtual host of the path or in all.
func (c *call) topicPermissions() (any, error) { return c.topicPermissionsOf(c.node.Users()), nil }

func (c *call) topicPermissionsOf(users []*node.User) list {
	all := list{}
	for _, u := range users {
		for _, vhost := range slices.Sorted(maps.Keys(u.TopicPermissions)) {
			if c.vhost != nil && c.vhost.Name != vhost {
				continue
			}
			exchanges := u.TopicPermissions[vhost]
			for _, name := range slices.Sorted(maps.Keys(exchanges)) {
				p := exchanges[name]
				all = append(all, object{"user": printable(u.Name), "vhost": printable(vhost), "exchange": printable(name), "write": p.Write, "read": p.Read})
			}
		}
	}
	return all
}

func (c *call) topicPermissionsOfUser() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	return c.topicPermissionsOf([]*node.User{u}), nil
}

func (c *call) topicPermissionsOfUserInVhost() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	all := c.topicPermissionsOf([]*node.User{u})
	if len(all) == 0 {
		return nil, notFound()
	}
	return all, nil
}

func (c *call) putTopicPermission() (any, error) {
	f, err := c.fields(maxBody, "exchange", "write", "read")
	if err != nil {
		return nil, err
	}
	edit, err := topicEdit(f, c.vhost.Name)
	if err != nil {
		return nil, err
	}
	u := c.node.User(c.path("user"))
	if u == nil {
		return nil, badRequest("vhost_or_user_not_found")
	}
	if exchange, _ := f["exchange"].(string); c.since(node.RabbitMQ43) && c.vhost.Exchange(exchange) == nil {
		return nil, badRequest([]any{"no_such_exchange", exchange})
	}
	_, err = c.node.EditUser(u.Name, false, edit)
	return made(len(u.TopicPermissions[c.vhost.Name]) == 0), err
}

// topicEdit reads what becomes of a user's permission for a topic exchange.
func topicEdit(f fields, vhost string) (func(*node.User), error) {
	exchange, err := f.text("exchange", "")
	if err != nil {
		return nil, err
	}
	var p node.TopicPermission
	if p.Write, err = f.text("write", ""); err != nil {
		return nil, err
	}
	if p.Read, err = f.text("read", ""); err != nil {
		return nil, err
	}
	return func(u *node.User) {
		if u.TopicPermissions == nil {
			u.TopicPermissions = make(map[string]map[string]node.TopicPermission)
		}
		if u.TopicPermissions[vhost] == nil {
			u.TopicPermissions[vhost] = make(map[string]node.TopicPermission)
		}
		u.TopicPermissions[vhost][exchange] = p
	}, nil
}

// deleteTopicPermissions deletes those of a user for all exchanges of a virtual host.
func (c *call) deleteTopicPermissions() (any, error) {
	return c.editTopicPermissions(func(u *node.User) { delete(u.TopicPermissions, c.vhost.Name) })
}

// deleteTopicPermission deletes that of a user for one exchange. As in RabbitMQ it is no error if there is none, as long as the user has one for another
// exchange of the virtual host.
func (c *call) deleteTopicPermission() (any, error) {
	return c.editTopicPermissions(func(u *node.User) {
		left := u.TopicPermissions[c.vhost.Name]
		delete(left, c.path("exchange"))
		if len(left) == 0 {
			delete(u.TopicPermissions, c.vhost.Name)
		}
	})
}

// editTopicPermissions changes those of a user who has some in the virtual host.
func (c *call) editTopicPermissions(edit func(*node.User)) (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	if len(u.TopicPermissions[c.vhost.Name]) == 0 {
		return nil, notFound()
	}
	_, err = c.node.EditUser(u.Name, false, edit)
	return done, err
}
