package mgmt

import (
	"maps"
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
)

// topicPermissions lists those of all users, in the virtual host of the path or in all.
func (c *call) topicPermissions() (any, error) { return c.topicPermissionsOf(c.node.Users()...), nil }

func (c *call) topicPermissionsOf(users ...*node.User) list {
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

func (c *call) topicPermissionsOfUser(u *node.User) (any, error) { return c.topicPermissionsOf(u), nil }

func (c *call) topicPermissionsOfUserInVhost(u *node.User) (any, error) {
	all := c.topicPermissionsOf(u)
	if len(all) == 0 {
		return nil, notFound()
	}
	return all, nil
}

func (c *call) putTopicPermission() (any, error) {
	f := c.fields(maxBody, "exchange", "write", "read")
	edit, u := topicEdit(f, c.vhost), c.node.User(c.path("user"))
	if u == nil {
		f.fail("vhost_or_user_not_found")
	}
	if exchange := f.text("exchange", ""); c.since(node.RabbitMQ43) && c.vhost.Exchange(exchange) == nil {
		f.fail([]any{"no_such_exchange", exchange})
	}
	if f.err != nil {
		return nil, f.err
	}
	_, err := c.node.EditUser(u.Name, false, edit)
	return made(len(u.TopicPermissions[c.vhost.Name]) == 0), err
}

// topicEdit reads a topic permission and returns what sets it.
func topicEdit(f *fields, v *node.Vhost) func(*node.User) {
	exchange, p := f.text("exchange", ""), node.TopicPermission{Write: f.text("write", ""), Read: f.text("read", "")}
	return func(u *node.User) {
		if u.TopicPermissions == nil {
			u.TopicPermissions = make(map[string]map[string]node.TopicPermission)
		}
		if u.TopicPermissions[v.Name] == nil {
			u.TopicPermissions[v.Name] = make(map[string]node.TopicPermission)
		}
		u.TopicPermissions[v.Name][exchange] = p
	}
}

// deleteTopicPermissions deletes those of a user for all exchanges of a virtual host.
func (c *call) deleteTopicPermissions(u *node.User) (any, error) {
	return c.editTopicPermissions(u, func(u *node.User) { delete(u.TopicPermissions, c.vhost.Name) })
}

// deleteTopicPermission deletes that of a user for one exchange. As in RabbitMQ it is no error if there is none, as long
// as the user has one for another exchange of the virtual host.
func (c *call) deleteTopicPermission(u *node.User) (any, error) {
	return c.editTopicPermissions(u, func(u *node.User) {
		left := u.TopicPermissions[c.vhost.Name]
		delete(left, c.path("exchange"))
		if len(left) == 0 {
			delete(u.TopicPermissions, c.vhost.Name)
		}
	})
}

// editTopicPermissions changes those of a user, who must have some in the virtual host.
func (c *call) editTopicPermissions(u *node.User, edit func(*node.User)) (any, error) {
	if len(u.TopicPermissions[c.vhost.Name]) == 0 {
		return nil, notFound()
	}
	_, err := c.node.EditUser(u.Name, false, edit)
	return done, err
}
