package mgmt

import (
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
)

func (c *call) exportAll() (any, error) {
	users, vhosts := list{}, list{}
	for _, u := range c.node.Users() {
		users = append(users, userObject(u))
	}
	for _, v := range c.node.Vhosts() {
		o := object{"name": printable(v.Name)}
		if m := v.Metadata(); m.Description != "" || len(m.Tags) > 0 || m.DefaultQueueType != "" {
			c.describeVhost(o, m)
		}
		vhosts = append(vhosts, o)
	}
	o := c.definitions(c.node.Vhosts(), true)
	o["rabbitmq_version"], o["product_name"], o["product_version"] = c.node.Config.Version, "rehop", c.node.Config.Version
	o["users"], o["vhosts"], o["global_parameters"] = users, vhosts, globalParameters(c.node)
	o["permissions"], o["topic_permissions"] = c.permissionsOf(c.node.Users()...), c.topicPermissionsOf(c.node.Users()...)
	return o, nil
}

// exportVhost exports the definitions of one virtual host, which can be imported into another.
func (c *call) exportVhost() (any, error) {
	o := c.definitions([]*node.Vhost{c.vhost}, false)
	if !c.since(node.RabbitMQ40) {
		return o, nil
	}
	name, metadata := printable(c.vhost.Name), c.metadata(c.vhost.Metadata())
	o["rabbitmq_version"], o["product_name"], o["product_version"] = c.node.Config.Version, "rehop", c.node.Config.Version
	o["rabbitmq_definition_format"], o["original_vhost_name"], o["explanation"] = "single_virtual_host", name, "Definitions of virtual host '"+name+"'"
	o["metadata"], o["description"], o["limits"] = metadata, metadata["description"], shownLimits(c.vhost.Limits())
	if !c.since(node.RabbitMQ43) {
		o["default_queue_type"] = metadata["default_queue_type"]
		if len(c.vhost.Limits()) == 0 {
			o["limits"] = list{}
		}
	}
	return o, nil
}

// definitions describes what is in virtual hosts, except what every broker has and what belongs to connections.
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
			o := policyObject(c, v, p)
			if !named && c.since(node.RabbitMQ40) {
				delete(o, "vhost")
			}
			policies = append(policies, o)
		}
		for _, p := range parametersOf(v) {
			delete(p, "vhost")
			parameters = append(parameters, in(p))
		}
		private := map[string]bool{}
		for _, q := range v.Queues() {
			private[q.Name] = q.Exclusive
			if !q.Exclusive {
				queues = append(queues, in(c.queueDefinition(q)))
			}
		}
		for _, x := range v.Exchanges() {
			if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
				exchanges = append(exchanges, in(c.exchangeDefinition(x)))
			}
		}
		for _, b := range v.Bindings() {
			if b.Source != "" && !(b.Kind == "queue" && private[b.Destination]) {
				bindings = append(bindings, in(object{"source": printable(b.Source), "destination": printable(b.Destination), "destination_type": b.Kind,
					"routing_key": printable(b.Key), "arguments": shown(b.Arguments)}))
			}
		}
	}
	return object{"rabbit_version": c.node.Config.Version, "parameters": parameters, "policies": policies, "queues": queues, "exchanges": exchanges, "bindings": bindings}
}

func (a *api) queueDefinition(q *node.Queue) object {
	o := object{"name": printable(q.Name), "durable": q.Durable, "auto_delete": q.AutoDelete, "arguments": shown(q.ShownArguments())}
	if a.since(node.RabbitMQ43) {
		o["type"] = q.Core.Type
	}
	return o
}

// exchangeDefinition has what is needed to declare an exchange. RabbitMQ 4.3 does not export internal exchanges, and so
// has no key for that.
func (a *api) exchangeDefinition(x *node.Exchange) object {
	o := object{"name": printable(x.Name), "type": x.Kind, "durable": x.Durable, "auto_delete": x.AutoDelete, "arguments": shown(x.Arguments)}
	if x.Internal || !a.since(node.RabbitMQ43) {
		o["internal"] = x.Internal
	}
	return o
}
