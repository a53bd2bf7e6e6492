package config

import (
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/broker"
)

// User is a user of the embedded broker.
type User struct {
	Name, Password string
	// Tags are the user's rights in the management API.
	Tags []string
	// Permissions are by virtual host. Nil: all permissions.
	Permissions map[string]broker.Permission
	// TopicPermissions are by virtual host and exchange.
	TopicPermissions map[string]map[string]broker.TopicPermission
	Limits           broker.Limits
}

const (
	// localUser is the user of an embedded broker without others.
	localUser = "guest"
	// InternalUser is the user as which the flows log in to the embedded broker, within the process.
	InternalUser = "rehop-internal"
)

// userKeys are the keys of a user.
func (r *reader) userKeys(u *User) keys {
	return keys{
		"password": r.password(u),
		"tags":     r.words(&u.Tags, "administrator", "monitoring", "policymaker", "management"),
		"permissions": func(n *yaml.Node) {
			u.Permissions = make(map[string]broker.Permission)
			r.named(n, "permissions", func(vhost string, _, value *yaml.Node) {
				var p broker.Permission
				r.mapping(value, fmt.Sprintf("the permissions in virtual host %q", vhost), keys{"configure": r.pattern(&p.Configure), "write": r.pattern(&p.Write), "read": r.pattern(&p.Read)})
				u.Permissions[vhost] = p
			})
		},
		"topic-permissions": func(n *yaml.Node) {
			u.TopicPermissions = make(map[string]map[string]broker.TopicPermission)
			r.named(n, "topic-permissions", func(vhost string, _, value *yaml.Node) {
				exchanges := make(map[string]broker.TopicPermission)
				r.named(value, fmt.Sprintf("the topic permissions in virtual host %q", vhost), func(exchange string, _, value *yaml.Node) {
					var p broker.TopicPermission
					r.mapping(value, fmt.Sprintf("the topic permissions for exchange %q", exchange), keys{"write": r.pattern(&p.Write), "read": r.pattern(&p.Read)})
					exchanges[exchange] = p
				})
				u.TopicPermissions[vhost] = exchanges
			})
		},
		"max-connections": r.atLeastOne(&u.Limits.MaxConnections),
		"max-channels":    r.atLeastOne(&u.Limits.MaxChannels),
	}
}

// password reads the password of a user.
func (r *reader) password(u *User) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			r.fault(n, "the password of user %q must be a text, and is %s", u.Name, kindOf(n))
			return
		}
		text, missing := expand(n.Value, r.env)
		for _, m := range missing {
			r.fault(n, "the password of user %q: %s", u.Name, m)
		}
		u.Password = text
	}
}

// pattern reads a regular expression.
func (r *reader) pattern(to *string) func(*yaml.Node) {
	return value(r, to, "a regular expression", "a regular expression, as in ^orders", func(text string) (string, error) {
		_, err := regexp.Compile(text)
		return text, err
	})
}
