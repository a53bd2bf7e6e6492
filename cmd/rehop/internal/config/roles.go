package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/console"
)

// Roles decide what users may do by what another server knows about them.
type Roles struct {
	// By are the roles of groups, or of values of a claim.
	By map[string]console.Role
	// Default is the role of users with none of them. 0: they may not use the console.
	Default console.Role
}

// Of is the highest role that some values give. 0: none.
func (r Roles) Of(values []string) console.Role {
	role := r.Default
	for _, v := range values {
		role = max(role, r.By[v])
	}
	return role
}

// roleKeys are the keys that decide about roles.
func (r *reader) roleKeys(to *Roles) keys {
	return keys{
		"roles": func(n *yaml.Node) {
			to.By = make(map[string]console.Role)
			r.named(n, "roles", func(name string, _, value *yaml.Node) { to.By[name] = r.role(value) })
		},
		"default-role": func(n *yaml.Node) { to.Default = r.role(n) },
	}
}

// role reads a role. 0: it is none.
func (r *reader) role(n *yaml.Node) (role console.Role) {
	all := []console.Role{console.Viewer, console.Operator, console.Admin}
	var word string
	choice(r, &word, all[0].String(), all[1].String(), all[2].String())(n)
	for _, one := range all {
		if one.String() == word {
			role = one
		}
	}
	return role
}

// needRoles reports a way to log in that would refuse everybody.
func (r *reader) needRoles(n *yaml.Node, at places, what string) {
	_, roles := at.keys["roles"]
	_, byDefault := at.keys["default-role"]
	if !roles && !byDefault && n.Kind == yaml.MappingNode {
		r.fault(n, "%s needs roles or default-role: without them nobody could use the console", what)
	}
}
