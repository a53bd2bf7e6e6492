package mgmt

import "github.com/rehop/rehop/broker/internal/node"

// The deprecated features of RabbitMQ 4 that this broker has, or refuses if its release does.
const (
	globalQos       = "global_qos"
	transientQueues = "transient_nonexcl_queues"
)

func (c *call) deprecatedFeatures() (any, error) {
	return list{c.featureObject(globalQos), c.featureObject(transientQueues)}, nil
}

// usedFeatures lists the deprecated features in use. Like RabbitMQ, it does not report global_qos.
func (c *call) usedFeatures() (any, error) {
	for q := range c.node.Queues() {
		if !q.Durable && !q.Exclusive {
			return list{c.featureObject(transientQueues)}, nil
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
