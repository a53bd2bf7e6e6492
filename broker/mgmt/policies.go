package mgmt

import (
	"encoding/json"

	"github.com/rehop/rehop/broker/internal/node"
)

func policyObject(_ *call, v *node.Vhost, p node.Policy) object {
	return object{"vhost": printable(v.Name), "name": printable(p.Name), "pattern": printable(p.Pattern), "apply-to": p.ApplyTo, "priority": p.Priority,
		"definition": p.Definition}
}

// onePolicy returns a handler for policies of users, or for those of operators.
func onePolicy(operator bool) func(*call) (any, error) {
	return func(c *call) (any, error) {
		p, ok := c.vhost.Policy(c.path("name"), operator)
		if !ok {
			return nil, notFound()
		}
		return policyObject(c, c.vhost, p), nil
	}
}

func putPolicy(operator bool) func(*call) (any, error) {
	return func(c *call) (any, error) {
		f := c.fields(maxBody, "pattern", "definition")
		p := f.policy()
		if f.err != nil {
			return nil, f.err
		}
		p.Name, p.Operator = c.path("name"), operator
		_, exists := c.vhost.Policy(p.Name, operator)
		return made(!exists), c.vhost.PutPolicy(p)
	}
}

func (f *fields) policy() node.Policy {
	p := node.Policy{Pattern: f.text("pattern", ""), ApplyTo: f.text("apply-to", "")}
	if _, ok := f.values["priority"].(json.Number); !ok && f.values["priority"] != nil {
		f.failWith(invalid("priority should be a number"))
	}
	p.Priority, p.Definition = f.integer("priority", 0), f.table("definition")
	return p
}

func deletePolicy(operator bool) func(*call) (any, error) {
	return func(c *call) (any, error) {
		name := c.path("name")
		if _, ok := c.vhost.Policy(name, operator); !ok {
			return nil, notFound()
		}
		return done, c.vhost.DeletePolicy(name, operator)
	}
}
