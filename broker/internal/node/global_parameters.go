package node

import (
	"encoding/json"
	"maps"

	"github.com/rehop/rehop/broker/internal/store"
)

// clusterName is the only global parameter that the broker uses. The others are for tools and for RabbitMQ's plugins.
const clusterName = "cluster_name"

// ClusterName returns the name that clients see.
func (n *Node) ClusterName() string {
	if raw, ok := n.GlobalParameter(clusterName); ok {
		var name string
		if json.Unmarshal(raw, &name) == nil {
			return name
		}
	}
	return n.Config.Name
}

// GlobalParameters returns all parameters by name.
func (n *Node) GlobalParameters() map[string]json.RawMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.globals)
}

// GlobalParameter returns a parameter.
func (n *Node) GlobalParameter(name string) (json.RawMessage, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	value, ok := n.globals[name]
	return value, ok
}

// PutGlobalParameter creates or replaces a parameter. Its value is JSON.
func (n *Node) PutGlobalParameter(name string, value json.RawMessage) (created bool, err error) {
	if err := checkUTF8("global parameter", name); err != nil {
		return false, err
	}
	n.mu.Lock()
	_, there := n.globals[name]
	n.globals[name] = value
	mark := n.define(put(globalKey(name), value))
	n.mu.Unlock()
	return !there, n.kept(mark)
}

// DeleteGlobalParameter removes a parameter and reports whether it existed.
func (n *Node) DeleteGlobalParameter(name string) (there bool, err error) {
	n.mu.Lock()
	_, there = n.globals[name]
	delete(n.globals, name)
	var mark store.Mark
	if there {
		mark = n.define(change{removed: []string{globalKey(name)}})
	}
	n.mu.Unlock()
	return there, n.kept(mark)
}

// globalKind is the kind of definitions of global parameters.
const globalKind = "global-parameter"

func globalKey(name string) string { return definitionKey(globalKind, name) }
