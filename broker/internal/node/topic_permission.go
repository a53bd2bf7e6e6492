package node

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/internal/wire"
)

// TopicPermission is with which routing keys a user may publish to a topic exchange, and bind to it. {username} and {vhost} stand for themselves. Where a
// user has none for an exchange, all keys are allowed.
type TopicPermission struct {
	Write string `json:"write"`
	Read  string `json:"read"`
}

// topicRules are those of one exchange, compiled.
type topicRules struct{ write, read *regexp.Regexp }

// compile puts names in for variables, as RabbitMQ does.
func (p TopicPermission) compile(user, vhost string) (r topicRules, err error) {
	names := strings.NewReplacer("{username}", user, "{vhost}", vhost)
	if r.write, err = compilePermission(names.Replace(p.Write)); err != nil {
		return r, err
	}
	r.read, err = compilePermission(names.Replace(p.Read))
	return r, err
}

// checkTopics compiles what a user may do with topics, to see whether it can be.
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
	rules := a.current()
	if rules != nil {
		topic, restricted := rules.topics[x.Name]
		if !restricted {
			return nil
		}
		if re := topic.read; want == Read && re.MatchString(key) {
			return nil
		}
		if re := topic.write; want == Write && re.MatchString(key) {
			return nil
		}
	}
	return Refuse(wire.AccessRefused, "%s to topic '%s' in %s refused for user '%s'", a.Node.Config.Compat.access(want), key, Resource("exchange", x.Name, a.Vhost.Name), a.User)
}
