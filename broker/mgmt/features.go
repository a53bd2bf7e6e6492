package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
)

// The deprecated features of RabbitMQ 4 that this broker has, or refuses as the release does which it follows.
const (
	globalQos       = "global_qos"
	transientQueues = "transient_nonexcl_queues"
)

func (c *call) deprecatedFeatures() (any, error) {
	return list{c.featureObject(globalQos), c.featureObject(transientQueues)}, nil
}

// usedFeatures are the deprecated features of which something is in use. RabbitMQ does not tell for global_qos, either.
func (c *call) usedFeatures() (any, error) {
	for _, v := range c.node.Vhosts() {
		for _, q := range v.Queues() {
			if !q.Durable && !q.Exclusive {
				return list{c.featureObject(transientQueues)}, nil
			}
		}
	}
	return list{}, nil
}

func (a *api) featureObject(name string) object {
	o := object{"name": name, "desc": "", "deprecation_phase": "permitted_by_default", "doc_url": "", "provided_by": "rabbit"}
	if a.since(node.RabbitMQ43) {
		o["deprecation_phase"], o["state"] = "denied_by_default", "denied"
	}
	return o
}
