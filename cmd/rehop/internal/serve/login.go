package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// Login is how other programs log in to the embedded broker. The zero value: as users that were added through its management API.
type Login struct {
	// Users are the users of the file. If there are any, the other fields are empty.
	Users []string `json:"users,omitempty"`
	User  string   `json:"user,omitempty"`
	// Password is that of guest, or of an administrator who was created by this start.
	Password string `json:"password,omitempty"`
	// PasswordFile has the administrator's password. Empty: nothing is kept.
	PasswordFile string `json:"password_file,omitempty"`
	// LocalOnly: the user can log in only from this machine.
	LocalOnly bool `json:"local_only,omitempty"`
}

// String explains the login in one line.
func (l Login) String() string {
	switch {
	case l.User == "" && len(l.Users) == 0:
		return "as a user that was added through the management API"
	case len(l.Users) > 0:
		return "as a user of the file: " + strings.Join(l.Users, ", ")
	case l.LocalOnly:
		return fmt.Sprintf("as %s, with the password %s, only from this machine", l.User, l.Password)
	case l.Password == "":
		return fmt.Sprintf("as %s; the password is in %s", l.User, l.PasswordFile)
	case l.PasswordFile == "":
		return fmt.Sprintf("as %s, with the password %s, which is new at each start", l.User, l.Password)
	}
	return fmt.Sprintf("as %s, with the password %s, which is not shown again; it is in %s", l.User, l.Password, l.PasswordFile)
}

// administrator is the user who is created if other machines can connect and the file has no users.
const administrator = "admin"

// passwordFile is the name of the file in the data directory that has the administrator's password.
const passwordFile = "admin-password"

// everything is the permission to do everything in all virtual hosts.
func everything() map[string]broker.Permission {
	return map[string]broker.Permission{"*": {Configure: ".*", Write: ".*", Read: ".*"}}
}

// ownPassword is the password of the user as which the flows log in. It is known to this process alone.
func (e *Embedded) ownPassword() string {
	e.once.Do(func() { e.password = rand.Text() })
	return e.password
}

// credentials are those of the flows and of the metrics of queues.
func (e *Embedded) credentials(context.Context) (user, password string, err error) {
	return config.InternalUser, e.ownPassword(), nil
}

// users returns the users of the broker and how to log in. Guest, whose password everybody knows, exists only if the file
// has no users and all listeners are for this machine alone. Otherwise, without users nobody could log in, so there is an
// administrator with a random password.
func (e *Embedded) users(listeners ...net.Listener) (users []broker.User, login Login, err error) {
	users = []broker.User{{Name: config.InternalUser, Password: e.ownPassword(), Tags: []string{"administrator"}, Permissions: everything(), InProcess: true}}
	for _, u := range e.Users {
		permissions := u.Permissions
		if permissions == nil {
			permissions = everything()
		}
		users = append(users, broker.User{Name: u.Name, Password: u.Password, Tags: u.Tags, Permissions: permissions, TopicPermissions: u.TopicPermissions, Limits: u.Limits})
		login.Users = append(login.Users, u.Name)
	}
	if len(e.Users) > 0 {
		return users, login, nil
	}
	if local(listeners) {
		return users, Login{User: "guest", Password: "guest", LocalOnly: true}, nil
	}
	login.User = administrator
	password := rand.Text()
	login.Password = password
	if e.Data != "" {
		login.PasswordFile = filepath.Join(e.Data, passwordFile)
		kept, there, err := keepPassword(login.PasswordFile, password)
		if err != nil {
			return nil, Login{}, err
		}
		if there {
			password, login.Password = kept, ""
		}
	}
	return append(users, broker.User{Name: administrator, Password: password, Tags: []string{"administrator"}, Permissions: everything()}), login, nil
}

// local reports whether only this machine can reach the listeners.
func local(listeners []net.Listener) bool {
	return !slices.ContainsFunc(listeners, func(l net.Listener) bool { return l != nil && !address.IsLocal(l.Addr().String()) })
}

// StoredLogin returns the administrator whose password is in the data directory of a broker, if this user can read it.
func StoredLogin(data string) (user, password string, found bool) {
	text, err := os.ReadFile(filepath.Join(data, passwordFile))
	password = strings.TrimSpace(string(text))
	return administrator, password, err == nil && password != ""
}

// keepPassword writes a password to a file that only this user can read, unless it has one, which is returned.
func keepPassword(path, password string) (kept string, there bool, err error) {
	text, err := os.ReadFile(path)
	if kept = strings.TrimSpace(string(text)); kept != "" {
		return kept, true, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read the password of user %s: %w", administrator, err)
	}
	if err := writePassword(path, password); err != nil {
		return "", false, fmt.Errorf("keep the password of user %s: %w; or name users in the file", administrator, err)
	}
	return "", false, nil
}

// writePassword makes the file appear with its whole content.
func writePassword(path, password string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+passwordFile+"-*") // only this user can read it
	if err != nil {
		return err
	}
	_, err = file.WriteString(password + "\n")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
