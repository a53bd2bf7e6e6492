package mgmt

import (
	"strings"

	"github.com/rehop/rehop/internal/node"
)

// exportAll is the definitions of the whole broker.
func (c *call) exportAll() (any, error) {
	users, vhosts := list{}, list{}
	for _, u := range c.node.Users() {
		users = append(users, userObject(u))
	}
	for _, v := range c.node.Vhosts() {
		o := object{"name": printable(v.Name)}
		if m := v.Metadata(); m.Description != "" || len(m.Tags) > 0 || m.DefaultQueueType != "" {
			describeVhost(o, m)
		}
		vhosts = append(vhosts, o)
	}
	permissions, err := c.permissions()
	if err != nil {
		return nil, err
	}
	o := c.definitions(c.node.Vhosts(), true)
	o["rabbitmq_version"], o["product_name"], o["product_version"] = c.node.Version(), "rehop", c.node.Version()
	o["users"], o["vhosts"], o["permissions"], o["topic_permissions"], o["global_parameters"] = users, vhosts, permissions, c.topicPermissionsOf(c.node.Users()), globalParameters(c.node)
	return o, nil
}

// exportVhost is the definitions of one virtual host, which can be imported into another.
func (c *call) exportVhost() (any, error) {
	return c.definitions([]*node.Vhost{c.vhost}, false), nil
}

// definitions has what is in virtual hosts, but for what a broker makes itself and what belongs to connections.
func (c *call) definitions(vhosts []*node.Vhost, named bool) object {
	parameters, policies, queues, exchanges, bindings := list{}, list{}, list{}, list{}, list{}
	for _, v := range vhosts {
		in := func(o object) object {
			if named {
				o["vhost"] = printable(v.Name)
			}
			return o
		}
		for _, p := range v.Policies() {
			policies = append(policies, policyObject(v.Name, p))
		}
		for _, p := range parametersOf(v) {
			delete(p, "vhost")
			parameters = append(parameters, in(p))
		}
		private := map[string]bool{}
		for _, q := range v.Queues() {
			private[q.Name] = q.Exclusive
			if !q.Exclusive {
				queues = append(queues, in(object{"name": printable(q.Name), "durable": q.Durable, "auto_delete": q.AutoDelete, "arguments": shown(q.Arguments)}))
			}
		}
		for _, x := range v.Exchanges() {
			if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
				exchanges = append(exchanges, in(object{"name": printable(x.Name), "type": x.Kind, "durable": x.Durable, "auto_delete": x.AutoDelete,
					"internal": x.Internal, "arguments": shown(x.Arguments)}))
			}
		}
		for _, b := range v.Bindings() {
			if b.Source != "" && !(b.Kind == "queue" && private[b.Destination]) {
				bindings = append(bindings, in(object{"source": printable(b.Source), "destination": printable(b.Destination), "destination_type": b.Kind,
					"routing_key": printable(b.Key), "arguments": shown(b.Arguments)}))
			}
		}
	}
	return object{"rabbit_version": c.node.Version(), "parameters": parameters, "policies": policies, "queues": queues, "exchanges": exchanges, "bindings": bindings}
}
