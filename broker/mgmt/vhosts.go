package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// vhosts lists those that the user may enter; who monitors sees all.
func (c *call) vhosts() (any, error) {
	all := list{}
	for _, v := range c.node.Vhosts() {
		if c.isMonitor() || c.sees(v.Name) {
			all = append(all, c.vhostObject(v))
		}
	}
	return all, nil
}

func (c *call) oneVhost() (any, error) { return c.vhostObject(c.vhost), nil }

func (a *api) vhostObject(v *node.Vhost) object {
	o := object{"name": printable(v.Name), "tracing": false, "cluster_state": object{a.node.Name(): "running"}}
	a.describeVhost(o, v.Metadata())
	if a.since(node.RabbitMQ43) {
		o["protected_from_deletion"] = false
	}
	now, rates := a.sum([]*node.Vhost{v})
	now.messages(o, rates)
	if now.happened() {
		o["message_stats"] = now.allStats(rates)
	}
	return o
}

// describeVhost adds what people say of a virtual host, twice, as RabbitMQ does.
func (a *api) describeVhost(o object, m node.VhostMetadata) {
	metadata := a.metadata(m)
	o["description"], o["tags"], o["metadata"], o["default_queue_type"] = metadata["description"], metadata["tags"], metadata, "undefined"
	if typ, known := metadata["default_queue_type"]; known {
		o["default_queue_type"] = typ
	}
}

// metadata is what people say of a virtual host. From 4.0 on each has a default queue type.
func (a *api) metadata(m node.VhostMetadata) object {
	if m.Tags == nil {
		m.Tags = []string{}
	}
	o := object{"description": m.Description, "tags": m.Tags}
	if m.DefaultQueueType == "" && a.since(node.RabbitMQ40) {
		m.DefaultQueueType = defaultQueueType
	}
	if m.DefaultQueueType != "" {
		o["default_queue_type"] = m.DefaultQueueType
	}
	return o
}

// defaultQueueType is that of a virtual host for which none was chosen.
const defaultQueueType = string(queue.Classic)

// vhostEdit reads what becomes of a virtual host. Definitions may have all of it in the metadata. A default queue type that is not given stays; so do
// description and tags if keep is set, else they are empty then.
func vhostEdit(f fields, keep bool) (func(*node.VhostMetadata), error) {
	metadata, err := f.table("metadata")
	if err != nil {
		return nil, err
	}
	all := fields{}
	for _, from := range []fields{metadata, f} {
		for _, key := range []string{"description", "tags", "default_queue_type"} {
			if from[key] != nil {
				all[key] = from[key]
			}
		}
	}
	description, err := all.text("description", "")
	if err != nil {
		return nil, err
	}
	tags, err := all.tags()
	if err != nil {
		return nil, err
	}
	typ, err := all.text("default_queue_type", "")
	if err != nil {
		return nil, err
	}
	return func(m *node.VhostMetadata) {
		if all["description"] != nil || !keep {
			m.Description = description
		}
		if all["tags"] != nil || !keep {
			m.Tags = tags
		}
		if typ != "" && typ != "undefined" {
			m.DefaultQueueType = typ
		}
	}, nil
}

// sum adds up the figures of virtual hosts.
func (a *api) sum(vhosts []*node.Vhost) (now, rates figures) {
	for _, v := range vhosts {
		f := figuresOfVhost(v)
		now.add(f)
		rates.add(a.rates.of(v, f))
	}
	return now, rates
}

// putVhost makes a virtual host, or changes what is said of it.
func (c *call) putVhost() (any, error) {
	f, err := c.fields(maxBody)
	if err != nil {
		return nil, err
	}
	if tracing, err := f.flag("tracing"); err != nil {
		return nil, err
	} else if tracing {
		return nil, badRequest("this broker cannot trace messages; leave tracing out")
	}
	edit, err := vhostEdit(f, false)
	if err != nil {
		return nil, err
	}
	var sketch node.VhostMetadata
	if edit(&sketch); sketch.Check() != nil { // before anything is made
		return nil, badRequest(sketch.Check().Error())
	}
	name := c.path("name")
	created := c.node.Vhost(name) == nil
	if err := c.node.AddVhost(name); err != nil {
		return nil, err
	}
	if v := c.node.Vhost(name); v != nil {
		if err := v.Describe(edit); err != nil {
			return nil, err
		}
	}
	if !created {
		return made(false), nil
	}
	// Who makes a virtual host may do everything there.
	_, err = c.node.EditUser(c.user.Name, false, func(u *node.User) {
		if _, ok := u.In(name); !ok {
			u.Permissions[name] = node.Everything()
		}
	})
	return made(created), err
}

func (c *call) deleteVhost() (any, error) { return done, c.node.DeleteVhost(c.vhost.Name) }
