package broker

import "github.com/rehop/rehop/broker/internal/node"

// User may log in, and do in each virtual host what its permissions allow.
type User struct {
	// Name is what the user logs in with.
	Name string
	// Password of the user. Default: Hash.
	Password string
	// Hash of the password in RabbitMQ's format, if Password is empty: 4 bytes of salt and the SHA-256 of salt and
	// password, in base64. Default: the user cannot log in with a password.
	Hash string
	// Tags are RabbitMQ's, for the HTTP API: management, policymaker, monitoring, administrator. Default: no access.
	Tags []string
	// Permissions by virtual host; "*" applies to all others. Default: none.
	Permissions map[string]Permission
	// LoopbackOnly lets the user log in from this machine only.
	LoopbackOnly bool
	// TopicPermissions by virtual host and exchange. Default: all routing keys are allowed.
	TopicPermissions map[string]map[string]TopicPermission
	// Limits of the user. Default: none.
	Limits Limits
}

// Permission is what a user may do in a virtual host: regular expressions that the names of exchanges and queues
// must match. An empty one matches nothing.
type Permission struct {
	// Configure is for declaring and deleting.
	Configure string
	// Write is for publishing to an exchange and binding a queue.
	Write string
	// Read is for consuming from a queue and binding to an exchange.
	Read string
}

// TopicPermission is which routing keys a user may use with a topic exchange: regular expressions, in which
// {username} and {vhost} stand for the user's values.
type TopicPermission struct {
	// Write is for publishing.
	Write string
	// Read is for binding.
	Read string
}

// Limits is how much a user may have at a time.
type Limits struct {
	// MaxConnections is how many connections the user may have; negative: none. Default: no limit.
	MaxConnections int
	// MaxChannels is how many channels the user may have, on all connections; negative: none. Default: no limit.
	MaxChannels int
}

func (u User) internal() node.User {
	n := node.User{Name: u.Name, Password: u.Password, Hash: u.Hash, Tags: u.Tags, LoopbackOnly: u.LoopbackOnly, Limits: u.Limits.internal()}
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
