package broker

import "github.com/rehop/rehop/broker/internal/node"

// User is a user that can log in.
type User struct {
	// Name is the name for the login. It must be UTF-8.
	Name string
	// Password is the password for the login. Set Hash instead to keep it out of the program. Default: none.
	Password string
	// Hash is the hash of the password in RabbitMQ's format: 4 bytes of salt and the SHA-256 of salt and password, in
	// base64. It is ignored if Password is set. Default: the user cannot log in with a password.
	Hash string
	// Tags are RabbitMQ's tags for the HTTP API: management, policymaker, monitoring, administrator.
	// Default: no access to the HTTP API.
	Tags []string
	// Permissions are the permissions by virtual host. "*" applies to virtual hosts that are not listed.
	// Default: the user has no access to any virtual host.
	Permissions map[string]Permission
	// LoopbackOnly allows the login only from this machine. Default: from everywhere.
	LoopbackOnly bool
	// InProcess allows the login only within the process, through Server.Dial or a net.Pipe to the HTTP API. The HTTP API
	// neither shows nor changes such a user. Use it for connections of the program itself. Default: from everywhere.
	InProcess bool
	// TopicPermissions are by virtual host and exchange. Default: all routing keys are allowed.
	TopicPermissions map[string]map[string]TopicPermission
	// Limits are the limits of the user. Default: no limits.
	Limits Limits
}

// Permission is what a user may do in a virtual host. Each field is a regular expression that can match anywhere in the
// name of an exchange or a queue. An empty one matches nothing.
type Permission struct {
	// Configure allows to declare and delete.
	Configure string
	// Write allows to publish to an exchange, and to bind a queue.
	Write string
	// Read allows to consume from a queue, and to bind to an exchange.
	Read string
}

// TopicPermission is which routing keys a user may use with a topic exchange. Each field is a regular expression, in which
// {username} and {vhost} stand for the user's values. An empty one matches no key.
type TopicPermission struct {
	// Write allows to publish.
	Write string
	// Read allows to bind.
	Read string
}

// Limits are limits of a user.
type Limits struct {
	// MaxConnections is how many connections the user can have. A negative value allows none. Default: no limit.
	MaxConnections int
	// MaxChannels is how many channels the user can have on all connections. A negative value allows none.
	// Default: no limit.
	MaxChannels int
}

func (u User) internal() node.User {
	n := node.User{Name: u.Name, Password: u.Password, Hash: u.Hash, Tags: u.Tags, LoopbackOnly: u.LoopbackOnly, InProcess: u.InProcess, Limits: u.Limits.internal()}
	if u.Permissions != nil {
		n.Permissions = make(map[string]node.Permission)
	}
	for vhost, p := range u.Permissions {
		n.Permissions[vhost] = node.Permission(p)
	}
	if u.TopicPermissions != nil {
		n.TopicPermissions = make(map[string]map[string]node.TopicPermission)
	}
	for vhost, exchanges := range u.TopicPermissions {
		n.TopicPermissions[vhost] = make(map[string]node.TopicPermission)
		for exchange, p := range exchanges {
			n.TopicPermissions[vhost][exchange] = node.TopicPermission(p)
		}
	}
	return n
}

func (l Limits) internal() node.Limits {
	limits := make(node.Limits)
	for name, limit := range map[string]int{node.MaxConnections: l.MaxConnections, node.MaxChannels: l.MaxChannels} {
		if limit != 0 {
			limits[name] = int64(max(limit, 0))
		}
	}
	if len(limits) == 0 {
		return nil
	}
	return limits
}
