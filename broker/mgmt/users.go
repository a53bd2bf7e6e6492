package mgmt

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
)

func (c *call) whoami() (any, error) {
	o := object{"name": printable(c.user.Name), "tags": shownTags(c.user.Tags)}
	if c.since(node.RabbitMQ40) {
		o["is_internal_user"] = true // the broker has no other users
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

func (c *call) oneUser(u *node.User) (any, error) { return userObject(u), nil }

// hashing is the only password hashing algorithm of this broker.
const hashing = "rabbit_password_hashing_sha256"

func userObject(u *node.User) object {
	return object{"name": printable(u.Name), "password_hash": u.Hash, "hashing_algorithm": hashing, "tags": shownTags(u.Tags), "limits": shownLimits(u.Limits)}
}

// shownTags returns an empty list if there are no tags.
func shownTags(tags []string) []string { return append([]string{}, tags...) }

func (c *call) putUser() (any, error) {
	f := c.fields(maxBody)
	created, err := c.editUser(f, c.path("user"), true, userEdit(f))
	return made(created), err
}

// userEdit reads the settings of a user and returns what sets them. It keeps permissions, and limits that are not given.
// Without a password and a hash, the user cannot log in with a password.
func userEdit(f *fields) func(*node.User) {
	if f.values["tags"] == nil {
		f.fail("tags_not_present")
	}
	given, password, hash := f.tags(), f.text("password", ""), f.text("password_hash", "")
	algorithm := f.text("hashing_algorithm", hashing)
	if raw, err := base64.StdEncoding.DecodeString(hash); err != nil || hash != "" && len(raw) != 36 || algorithm != hashing {
		f.fail("password_hash must be a salted hash of " + hashing + ", which is the only algorithm here")
	}
	limits := f.userLimits(f.table("limits"))
	return func(u *node.User) {
		u.Tags, u.Password, u.Hash = given, password, hash
		addLimits(u, limits)
	}
}

// tags reads a list, or a string with commas; nil: there are none.
func (f *fields) tags() (all []string) {
	switch v := f.values["tags"].(type) {
	case nil:
	case string:
		for tag := range strings.SplitSeq(v, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				all = append(all, tag)
			}
		}
	case []any:
		all = []string{}
		for _, tag := range v {
			text, ok := tag.(string)
			if !ok {
				f.fail([]any{"not_string", "tags"})
			}
			all = append(all, text)
		}
	default:
		f.fail([]any{"not_string", "tags"})
	}
	return all
}

func (c *call) deleteUser(u *node.User) (any, error) { return done, c.node.DeleteUser(u.Name) }

// deleteUsers deletes several users, or none if one does not exist.
func (c *call) deleteUsers() (any, error) {
	f := c.fields(maxBody, "users")
	listed, ok := f.values["users"].([]any)
	if !ok {
		f.fail([]any{"not_list", "users"})
	}
	var names []string
	for _, e := range listed {
		name, _ := e.(string)
		if c.node.User(name) == nil {
			f.fail([]any{"no_such_user", e})
		}
		names = append(names, name)
	}
	if f.err != nil {
		return nil, f.err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := c.node.DeleteUser(name); err != nil {
			return nil, err
		}
	}
	return done, nil
}
