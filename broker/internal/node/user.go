package node

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// User can log in, and has permissions in virtual hosts.
type User struct {
	Name string `json:"Name"`
	// Password is hashed when the user is stored. Empty if Hash is set.
	Password string `json:"Password"`
	// Hash is RabbitMQ's: 4 bytes of salt and SHA-256 of salt and password, in base64. Empty: no login with a password.
	Hash string   `json:"Hash"`
	Tags []string `json:"Tags"`
	// Permissions by virtual host; "*" stands for all others.
	Permissions map[string]Permission `json:"Permissions"`
	// LoopbackOnly users can log in only from this machine.
	LoopbackOnly bool `json:"LoopbackOnly"`
	// TopicPermissions by virtual host and exchange.
	TopicPermissions map[string]map[string]TopicPermission `json:"topic_permissions,omitempty"`
	// Limits of connections and channels. They are not changed in place.
	Limits Limits `json:"limits,omitempty"`
	// InProcess users can log in only within the process, and the HTTP API does not show them.
	InProcess bool `json:"-"`
	given     bool // by the configuration, and never on disk
	initial   bool // the default user, until somebody changes it
}

// isPrivate is the error of a change to a user that exists only within the process.
func (u *User) isPrivate() error {
	return fmt.Errorf("user %q is for connections within the broker's process, and cannot be changed", u.Name)
}

// Permission is what a user may do with resources whose names match.
type Permission struct {
	Configure string `json:"Configure"`
	Write     string `json:"Write"`
	Read      string `json:"Read"`
}

// Everything is the permission to do everything.
func Everything() Permission { return Permission{".*", ".*", ".*"} }

// HashPassword hashes a password as RabbitMQ does.
func HashPassword(password string) string {
	salted := make([]byte, 4, 4+sha256.Size)
	_, _ = rand.Read(salted) // never fails
	return base64.StdEncoding.EncodeToString(append(salted, saltedHash(salted, password)...))
}

func saltedHash(salt []byte, password string) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), password...))
	return sum[:]
}

func (u *User) knows(password string) bool {
	b, err := base64.StdEncoding.DecodeString(u.Hash)
	return err == nil && len(b) == 4+sha256.Size && password != "" && subtle.ConstantTimeCompare(saltedHash(b[:4], password), b[4:]) == 1
}

// Permission returns what a user may do in a virtual host; false: the user has no access to it.
func (u *User) Permission(vhost string) (Permission, bool) {
	p, ok := u.Permissions[vhost]
	if !ok {
		p, ok = u.Permissions["*"]
	}
	return p, ok
}

// User returns a copy of a user, or nil.
func (n *Node) User(name string) *User {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.users[name]
	if u == nil {
		return nil
	}
	return u.clone()
}

func (u *User) clone() *User {
	c := *u
	c.Tags, c.Permissions, c.Limits = slices.Clone(u.Tags), maps.Clone(u.Permissions), maps.Clone(u.Limits)
	if u.TopicPermissions != nil {
		c.TopicPermissions = make(map[string]map[string]TopicPermission)
		for vhost, exchanges := range u.TopicPermissions {
			c.TopicPermissions[vhost] = maps.Clone(exchanges)
		}
	}
	return &c
}

// Users returns copies of all users, by name, except those that exist only within the process.
func (n *Node) Users() []*User {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*User
	for _, u := range byName(n.users) {
		if !u.InProcess {
			all = append(all, u.clone())
		}
	}
	return all
}

// ready returns a checked copy with a hashed password.
func (u *User) ready() (*User, error) {
	if err := checkUTF8("user", u.Name); err != nil {
		return nil, err
	}
	if err := u.checkPermissions(); err != nil {
		return nil, err
	}
	c := u.clone()
	if c.Password != "" {
		c.Hash, c.Password = HashPassword(c.Password), ""
	}
	if c.Permissions == nil {
		c.Permissions = make(map[string]Permission)
	}
	return c, nil
}

// DeleteUser removes a user and closes the user's connections.
func (n *Node) DeleteUser(name string) error {
	n.mu.Lock()
	u := n.users[name]
	if u == nil || u.InProcess {
		n.mu.Unlock()
		if u == nil {
			return fmt.Errorf("no user %q", name)
		}
		return u.isPrivate()
	}
	delete(n.users, name)
	gone := change{removed: []string{userKey(name)}}
	if name == DefaultUser {
		gone.key, gone.value = defaultUserKey, defaultUserState{Deleted: true} // the next start does not create it again
	}
	mark := n.define(gone)
	n.mu.Unlock()
	n.permissionsChanged()
	n.clients.CloseConnections(fmt.Sprintf("user '%s' is deleted", name), func(user string, _ *Vhost) bool { return user == name })
	return n.kept(mark)
}

// seedUser adds a user of the configuration. It is never on disk, and replaces one that is: the configuration decides.
func (n *Node) seedUser(u User, initial bool) error {
	ready, err := u.ready()
	if err != nil {
		return err
	}
	ready.given, ready.initial = true, initial
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users[u.Name] = ready
	return nil
}

// defineUser logs a user. The node is locked.
func (n *Node) defineUser(u *User) store.Mark {
	if u.given {
		return 0
	}
	return n.define(put(userKey(u.Name), u))
}

// permissionsChanged invalidates everything that was cached of permissions.
func (n *Node) permissionsChanged() {
	n.permissions.Add(1)
	for _, v := range n.Vhosts() {
		v.changed()
	}
}

// maxPattern is the largest pattern that is compiled, in bytes.
const maxPattern = 4096

func compilePermission(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes, more than %d", len(pattern), maxPattern)
	}
	if pattern == "" {
		pattern = "^$" // nothing has an empty name
	}
	return regexp.Compile(pattern)
}

// nothingMatches stands for invalid patterns.
var nothingMatches = regexp.MustCompile(`\z.`)

// Right is one of the rights in a permission.
type Right int

func (r Right) String() string {
	return [...]string{Configure: "configure", Write: "write", Read: "read"}[r]
}

// The rights.
const (
	Configure Right = iota
	Write
	Read
)

// Access caches what a connection's user may do in its virtual host.
type Access struct {
	Node    *Node
	Vhost   *Vhost
	User    string
	version atomic.Uint64
	rules   atomic.Pointer[rights]
}

// rights is a compiled permission.
type rights struct {
	resources [3]*regexp.Regexp
	topics    map[string]topicRules // by exchange
}

// Check refuses what the user may not do.
func (a *Access) Check(want Right, kind, name string) error {
	rules := a.current()
	shown := name
	if kind == "exchange" && name == "" {
		shown = "amq.default"
	}
	if rules != nil && rules.resources[want].MatchString(shown) {
		return nil
	}
	return Refuse(wire.AccessRefused, "%s to %s refused for user '%s'", a.Node.Config.Compat.access(want), Resource(kind, shown, a.Vhost.Name), a.User)
}

// CheckPassive refuses a passive declaration without any right to the resource, in releases that do.
func (a *Access) CheckPassive(kind, name string) error {
	if !a.Node.Config.Compat.passiveNeedsPermission() || a.Check(Write, kind, name) == nil || a.Check(Read, kind, name) == nil {
		return nil
	}
	return a.Check(Configure, kind, name)
}

func (a *Access) current() *rights {
	version := a.Node.permissions.Load() + 1
	if a.version.Load() == version {
		return a.rules.Load()
	}
	var rules *rights
	if u := a.Node.User(a.User); u != nil {
		if p, ok := u.Permission(a.Vhost.Name); ok {
			rules = &rights{topics: make(map[string]topicRules)}
			for i, pattern := range []string{p.Configure, p.Write, p.Read} {
				re, err := compilePermission(pattern)
				if err != nil {
					return nil
				}
				rules.resources[i] = re
			}
			for name, p := range u.TopicPermissions[a.Vhost.Name] {
				topic, err := p.compile(a.User, a.Vhost.Name)
				if err != nil { // with the names, the pattern is invalid
					topic = topicRules{nothingMatches, nothingMatches}
				}
				rules.topics[name] = topic
			}
		}
	}
	a.rules.Store(rules)
	a.version.Store(version)
	return rules
}
