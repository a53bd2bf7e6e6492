package mgmt

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
)

func (c *call) whoami() (any, error) {
	o := object{"name": printable(c.user.Name), "tags": tags(c.user)}
	if c.since(node.RabbitMQ40) {
		o["is_internal_user"] = true // there is no other place where users are known
	}
	return o, nil
}

func (c *call) users() (any, error) { return c.usersWho(func(*node.User) bool { return true }), nil }

func (c *call) usersWithoutPermissions() (any, error) {
	return c.usersWho(func(u *node.User) bool { return len(u.Permissions) == 0 }), nil
}

func (c *call) usersWho(fit func(*node.User) bool) list {
	all := list{}
	for _, u := range c.node.Users() {
		if fit(u) {
			all = append(all, userObject(u))
		}
	}
	return all
}

// theUser returns the user whom the path names.
func (c *call) theUser() (*node.User, error) {
	u := c.node.User(c.path("user"))
	if u == nil {
		return nil, notFound()
	}
	return u, nil
}

func (c *call) oneUser() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	return userObject(u), nil
}

// hashing is the one way of hashing passwords that this broker knows.
const hashing = "rabbit_password_hashing_sha256"

func userObject(u *node.User) object {
	return object{"name": printable(u.Name), "password_hash": u.Hash, "hashing_algorithm": hashing, "tags": tags(u), "limits": shownLimits(u.Limits)}
}

func tags(u *node.User) []string {
	if u.Tags == nil {
		return []string{}
	}
	return u.Tags
}

func (c *call) putUser() (any, error) {
	f, err := c.fields(maxBody)
	if err != nil {
		return nil, err
	}
	edit, err := userEdit(f)
	if err != nil {
		return nil, err
	}
	created, err := c.node.EditUser(c.path("user"), true, edit)
	return made(created), err
}

// userEdit reads what becomes of a user; permissions stay, and so do limits that are not given. Without password and hash nobody can log in by password.
func userEdit(f fields) (func(*node.User), error) {
	given, err := readTags(f)
	if err != nil {
		return nil, err
	}
	password, err := f.text("password", "")
	if err != nil {
		return nil, err
	}
	hash, err := f.text("password_hash", "")
	if err != nil {
		return nil, err
	}
	algorithm, err := f.text("hashing_algorithm", hashing)
	if err != nil {
		return nil, err
	}
	if raw, err := base64.StdEncoding.DecodeString(hash); err != nil || hash != "" && len(raw) != 36 || algorithm != hashing {
		return nil, badRequest("password_hash must be a salted hash of " + hashing + ", which is the only algorithm here")
	}
	bounds, err := f.table("limits")
	if err != nil {
		return nil, err
	}
	limits, fault := node.ReadLimits(bounds, "user-limits", node.UserLimits()...)
	if fault != "" {
		return nil, badRequest(fault)
	}
	return func(u *node.User) {
		u.Tags, u.Password, u.Hash = given, password, hash
		addLimits(u, limits)
	}, nil
}

// readTags takes a list, or text with commas.
func readTags(f fields) ([]string, error) {
	if f["tags"] == nil {
		return nil, badRequest("tags_not_present")
	}
	return f.tags()
}

// tags reads a list, or text with commas; nil: there are none.
func (f fields) tags() ([]string, error) {
	switch v := f["tags"].(type) {
	case nil:
		return nil, nil
	case string:
		var all []string
		for _, tag := range strings.Split(v, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				all = append(all, tag)
			}
		}
		return all, nil
	case []any:
		all := []string{}
		for _, tag := range v {
			text, ok := tag.(string)
			if !ok {
				return nil, badRequest([]any{"not_string", "tags"})
			}
			all = append(all, text)
		}
		return all, nil
	}
	return nil, badRequest([]any{"not_string", "tags"})
}

func (c *call) deleteUser() (any, error) {
	u, err := c.theUser()
	if err != nil {
		return nil, err
	}
	return done, c.node.DeleteUser(u.Name)
}

// deleteUsers deletes several, and none if one is not there.
func (c *call) deleteUsers() (any, error) {
	f, err := c.fields(maxBody, "users")
	if err != nil {
		return nil, err
	}
	listed, ok := f["users"].([]any)
	if !ok {
		return nil, badRequest([]any{"not_list", "users"})
	}
	var names []string
	for _, e := range listed {
		name, _ := e.(string)
		if c.node.User(name) == nil {
			return nil, badRequest([]any{"no_such_user", e})
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := c.node.DeleteUser(name); err != nil {
			return nil, err
		}
	}
	return done, nil
}
