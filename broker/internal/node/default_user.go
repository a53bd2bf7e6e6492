package node

import "fmt"

// DefaultUser is the name of the user that a broker without configured users begins with. As in RabbitMQ, everybody knows
// its password, so it can log in only from this machine.
const DefaultUser = "guest"

// defaultUserState is what is kept on disk of the default user.
type defaultUserState struct {
	Deleted bool `json:"deleted"`
}

// defaultUserKey is the key of its definition.
const defaultUserKey = "default-user"

// Excludes reports whether a user does not exist in this broker, even if it is stored or imported: the default user of a
// broker with configured users, unless it is one of them. Otherwise a known password would survive the day on which
// users are configured and other machines can connect.
func (n *Node) Excludes(user string) bool {
	if user != DefaultUser || n.Config.DefaultUser != nil {
		return false
	}
	for _, u := range n.Config.Users {
		if u.Name == user {
			return false
		}
	}
	return true
}

// errExcluded is the error of an attempt to create the default user.
func errExcluded(user string) error {
	return fmt.Errorf("user %q does not exist when the configuration has users; choose another name", user)
}

// seedDefault creates the default user, unless it was changed or deleted while the broker ran.
func (n *Node) seedDefault() error {
	u := n.Config.DefaultUser
	if u == nil || n.User(u.Name) != nil {
		return nil
	}
	if n.Store != nil {
		var state defaultUserState
		if err := restoreOne(n.Store.Definitions(), defaultUserKey, &state); err != nil || state.Deleted {
			return err
		}
	}
	return n.seedUser(*u, true)
}

// restoreUser adds a user that was stored.
func (n *Node) restoreUser(u *User) {
	if n.Excludes(u.Name) {
		n.Log.Warn("a stored user is not used, because the configuration has users", "user", u.Name)
		return
	}
	n.users[u.Name] = u
}
