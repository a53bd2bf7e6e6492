package mgmt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

// The kinds of parameters that RabbitMQ has without plugins.
const (
	policyComponent   = "policy"
	operatorComponent = "operator_policy"
	limitsComponent   = "vhost-limits"
	limitsName        = "limits" // the one parameter of its kind
)

// plugins are the kinds of parameters that belong to RabbitMQ's plugins.
var plugins = map[string]string{"federation-upstream": "federation", "federation-upstream-set": "federation", "federation": "federation", "shovel": "shovels"}

// unknownComponent reports that there are no such parameters, and why.
func unknownComponent(component string) error {
	reason := fmt.Sprintf("component %s not found", component)
	if plugin := plugins[component]; plugin != "" {
		reason += fmt.Sprintf(": this broker has no %s; a RabbitMQ with that plugin has", plugin)
	}
	return invalid(reason)
}

// parameters lists those of the visible virtual hosts, of one component or all. Like RabbitMQ, it does not list policies
// of users.
func (c *call) parameters() (any, error) {
	all := list{}
	for _, v := range c.visible() {
		for _, p := range parametersOf(v) {
			if component := c.path("component"); component == "" || component == p["component"] {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

func parametersOf(v *node.Vhost) (all list) {
	for _, p := range v.OperatorPolicies() {
		all = append(all, policyParameter(v, p))
	}
	if limits := v.Limits(); len(limits) > 0 {
		all = append(all, parameter(v, limitsComponent, limitsName, limits))
	}
	return all
}

func parameter(v *node.Vhost, component, name string, value any) object {
	return object{"vhost": printable(v.Name), "component": component, "name": printable(name), "value": value}
}

func policyParameter(v *node.Vhost, p node.Policy) object {
	component := policyComponent
	if p.Operator {
		component = operatorComponent
	}
	return parameter(v, component, p.Name, object{"pattern": printable(p.Pattern), "apply-to": p.ApplyTo, "priority": p.Priority, "definition": p.Definition})
}

func (c *call) oneParameter() (any, error) {
	component, name := c.path("component"), c.path("name")
	if component == policyComponent {
		if p, ok := c.vhost.Policy(name, false); ok {
			return policyParameter(c.vhost, p), nil
		}
	}
	for _, p := range parametersOf(c.vhost) {
		if p["component"] == component && p["name"] == name {
			return p, nil
		}
	}
	return nil, notFound()
}

func (c *call) putParameter() (any, error) {
	f := c.fields(maxBody, "value")
	if f.err != nil {
		return nil, f.err
	}
	_, missing := c.oneParameter()
	return made(missing != nil), putParameter(c.vhost, c.path("component"), c.path("name"), f)
}

// putParameter sets a parameter to the field "value".
func putParameter(v *node.Vhost, component, name string, f *fields) error {
	switch component {
	case policyComponent:
		return badRequest("policies may not be set using this method")
	case operatorComponent, limitsComponent:
	default:
		return unknownComponent(component)
	}
	value := &fields{values: f.table("value"), err: f.err}
	if value.err != nil {
		return value.err
	}
	if component == operatorComponent {
		for _, key := range []string{"pattern", "definition", "priority"} {
			if _, ok := value.values[key]; !ok {
				return invalid(fmt.Sprintf("Key %q not found in %s", key, name))
			}
		}
		p := value.policy()
		if value.err != nil {
			return value.err
		}
		p.Name, p.Operator = name, true
		return v.PutPolicy(p)
	}
	if name != limitsName {
		return invalid(fmt.Sprintf("component %s has one parameter, %s", limitsComponent, limitsName))
	}
	limits, fault := node.ReadLimits(value.values, limitsName, node.VhostLimits()...)
	if fault != "" {
		return invalid(fault)
	}
	return v.EditLimits(func(l node.Limits) {
		clear(l)
		maps.Copy(l, limits)
	})
}

func (c *call) deleteParameter() (any, error) {
	if _, err := c.oneParameter(); err != nil {
		return nil, err
	}
	switch c.path("component") {
	case policyComponent:
		return nil, badRequest("policies may not be cleared using this method")
	case operatorComponent:
		return done, c.vhost.DeletePolicy(c.path("name"), true)
	}
	return done, c.vhost.EditLimits(func(l node.Limits) { clear(l) })
}

// globalParameters lists the parameters that plugins and tools keep for the whole broker.
func (c *call) globalParameters() (any, error) { return globalParameters(c.node), nil }

func globalParameters(n *session.Server) list {
	all, parameters := list{}, n.GlobalParameters()
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		all = append(all, object{"name": printable(name), "value": parameters[name]})
	}
	return all
}

func (c *call) oneGlobalParameter() (any, error) {
	value, ok := c.node.GlobalParameter(c.path("name"))
	if !ok {
		return nil, notFound()
	}
	return object{"name": printable(c.path("name")), "value": value}, nil
}

func (c *call) putGlobalParameter() (any, error) {
	f := c.fields(maxBody, "value")
	if f.err != nil {
		return nil, f.err
	}
	created, err := setGlobalParameter(c.node, c.path("name"), f)
	return made(created), err
}

func setGlobalParameter(n *session.Server, name string, f *fields) (created bool, err error) {
	value, err := json.Marshal(f.values["value"])
	if err != nil {
		return false, err
	}
	return n.PutGlobalParameter(name, value)
}

func (c *call) deleteGlobalParameter() (any, error) {
	there, err := c.node.DeleteGlobalParameter(c.path("name"))
	if err == nil && !there {
		err = notFound()
	}
	return done, err
}
