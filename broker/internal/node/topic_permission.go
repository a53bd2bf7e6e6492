package node

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/internal/wire"
)

// TopicPermission is which routing keys a user may use to publish to a topic exchange, and to bind to it. {username} and
// {vhost} stand for the user's values. A user without one for an exchange may use all keys.
type TopicPermission struct {
	Write string `json:"write"`
	Read  string `json:"read"`
}

// topicRules are the compiled rules of one exchange.
type topicRules struct{ write, read *regexp.Regexp }

// compile replaces the variables, as RabbitMQ does.
func (p TopicPermission) compile(user, vhost string) (r topicRules, err error) {
	names := strings.NewReplacer("{username}", user, "{vhost}", vhost)
	if r.write, err = compilePermission(names.Replace(p.Write)); err != nil {
		return r, err
	}
	r.read, err = compilePermission(names.Replace(p.Read))
	return r, err
}

// checkTopics checks whether the topic permissions can be compiled.
func (u *User) checkTopics() error {
	for vhost, exchanges := range u.TopicPermissions {
		for name, p := range exchanges {
			if _, err := p.compile("", ""); err != nil {
				return fmt.Errorf("topic permission of user %q for exchange %q in virtual host %q: %w", u.Name, name, vhost, err)
			}
		}
	}
	return nil
}

// CheckTopic refuses routing keys that the user may not use with a topic exchange.
func (a *Access) CheckTopic(want Right, x *Exchange, key string) error {
	if x.Kind != exchange.Topic {
		return nil
	}
	if rules := a.current(); rules != nil {
		topic, restricted := rules.topics[x.Name]
		if !restricted || want == Read && topic.read.MatchString(key) || want == Write && topic.write.MatchString(key) {
			return nil
		}
	}
	return Refuse(wire.AccessRefused, "%s to topic '%s' in %s refused for user '%s'", a.Node.Config.Compat.access(want), key, Resource("exchange", x.Name, a.Vhost.Name), a.User)
}
