package mgmt

import (
	"encoding/json"

	"github.com/rehop/rehop/internal/node"
)

func (c *call) policies() (any, error) {
	all := list{}
	for _, v := range c.visible() {
		for _, p := range v.Policies() {
			all = append(all, policyObject(v.Name, p))
		}
	}
	return all, nil
}

// operatorPolicies are none: this broker has none, and tools ask.
func (c *call) operatorPolicies() (any, error) { return list{}, nil }

func policyObject(vhost string, p node.Policy) object {
	return object{"vhost": printable(vhost), "name": printable(p.Name), "pattern": printable(p.Pattern), "apply-to": p.ApplyTo, "priority": p.Priority,
		"definition": p.Definition}
}

func (c *call) onePolicy() (any, error) {
	p, ok := c.vhost.Policy(c.path("name"))
	if !ok {
		return nil, notFound()
	}
	return policyObject(c.vhost.Name, p), nil
}

func (c *call) putPolicy() (any, error) {
	f, err := c.fields(maxBody, "pattern", "definition")
	if err != nil {
		return nil, err
	}
	p, err := readPolicy(f)
	if err != nil {
		return nil, err
	}
	p.Name = c.path("name")
	_, there := c.vhost.Policy(p.Name)
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
