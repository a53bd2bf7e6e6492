package mgmt

import (
	"encoding/json"

	"github.com/rehop/rehop/broker/internal/node"
)

func (c *call) policies() (any, error) { return c.policiesBy((*node.Vhost).Policies), nil }
func (c *call) operatorPolicies() (any, error) {
	return c.policiesBy((*node.Vhost).OperatorPolicies), nil
}

func (c *call) policiesBy(of func(*node.Vhost) []node.Policy) list {
	all := list{}
	for _, v := range c.visible() {
		for _, p := range of(v) {
			all = append(all, policyObject(v.Name, p))
		}
	}
	return all
}

func policyObject(vhost string, p node.Policy) object {
	return object{"vhost": printable(vhost), "name": printable(p.Name), "pattern": printable(p.Pattern), "apply-to": p.ApplyTo, "priority": p.Priority,
		"definition": p.Definition}
}

func (c *call) onePolicy() (any, error)         { return c.policyBy(c.vhost.Policy) }
func (c *call) oneOperatorPolicy() (any, error) { return c.policyBy(c.vhost.OperatorPolicy) }

func (c *call) policyBy(find func(name string) (node.Policy, bool)) (any, error) {
	p, ok := find(c.path("name"))
	if !ok {
		return nil, notFound()
	}
	return policyObject(c.vhost.Name, p), nil
}

func (c *call) putPolicy() (any, error)         { return c.putPolicyAs(false, c.vhost.Policy) }
func (c *call) putOperatorPolicy() (any, error) { return c.putPolicyAs(true, c.vhost.OperatorPolicy) }

func (c *call) putPolicyAs(operator bool, find func(name string) (node.Policy, bool)) (any, error) {
	f, err := c.fields(maxBody, "pattern", "definition")
	if err != nil {
		return nil, err
	}
	p, err := readPolicy(f)
	if err != nil {
		return nil, err
	}
	p.Name, p.Operator = c.path("name"), operator
	_, there := find(p.Name)
	return made(!there), c.vhost.PutPolicy(p)
}

func readPolicy(f fields) (p node.Policy, err error) {
	if p.Pattern, err = f.text("pattern", ""); err != nil {
		return p, err
	}
	if p.ApplyTo, err = f.text("apply-to", ""); err != nil {
		return p, err
	}
	if _, ok := f["priority"].(json.Number); !ok && f["priority"] != nil {
		return p, badRequest("Validation failed\n\npriority should be a number\n")
	}
	if p.Priority, err = f.integer("priority", 0); err != nil {
		return p, err
	}
	p.Definition, err = f.table("definition")
	return p, err
}

func (c *call) deletePolicy() (any, error) {
	name := c.path("name")
	if _, ok := c.vhost.Policy(name); !ok {
		return nil, notFound()
	}
	return done, c.vhost.DeletePolicy(name)
}

func (c *call) deleteOperatorPolicy() (any, error) {
	name := c.path("name")
	if _, ok := c.vhost.OperatorPolicy(name); !ok {
		return nil, notFound()
	}
	return done, c.vhost.DeleteOperatorPolicy(name)
}
