package mgmt

import (
	"cmp"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// vhosts lists the virtual hosts that the user has access to; with the tag monitoring all.
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
	o := object{"name": printable(v.Name), "tracing": false, "cluster_state": object{a.node.Config.Name: "running"}}
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

// describeVhost adds the metadata of a virtual host, twice, as RabbitMQ does.
func (a *api) describeVhost(o object, m node.VhostMetadata) {
	metadata := a.metadata(m)
	o["description"], o["tags"], o["metadata"], o["default_queue_type"] = metadata["description"], metadata["tags"], metadata, "undefined"
	if typ, known := metadata["default_queue_type"]; known {
		o["default_queue_type"] = typ
	}
}

// metadata describes a virtual host. From 4.0 on each has a default queue type.
func (a *api) metadata(m node.VhostMetadata) object {
	o := object{"description": m.Description, "tags": shownTags(m.Tags)}
	if m.DefaultQueueType == "" && a.since(node.RabbitMQ40) {
		m.DefaultQueueType = defaultQueueType
	}
	if m.DefaultQueueType != "" {
		o["default_queue_type"] = m.DefaultQueueType
	}
	return o
}

// defaultQueueType is that of a virtual host without a configured one.
const defaultQueueType = string(queue.Classic)

// vhostEdit reads the metadata of a virtual host and returns what sets it. Definitions can have all of it in "metadata".
// A default queue type that is not given stays. So do description and tags if keep is set; otherwise they become empty.
func vhostEdit(f *fields, keep bool) func(*node.VhostMetadata) {
	all := fields{values: make(map[string]any)}
	for _, from := range []map[string]any{f.table("metadata"), f.values} {
		for _, key := range []string{"description", "tags", "default_queue_type"} {
			if from[key] != nil {
				all.values[key] = from[key]
			}
		}
	}
	description, tags, typ := all.text("description", ""), all.tags(), all.text("default_queue_type", "")
	f.failWith(all.err)
	return func(m *node.VhostMetadata) {
		if all.values["description"] != nil || !keep {
			m.Description = description
		}
		if all.values["tags"] != nil || !keep {
			m.Tags = tags
		}
		if typ != "" && typ != "undefined" {
			m.DefaultQueueType = typ
		}
	}
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

// putVhost creates a virtual host or changes its metadata.
func (c *call) putVhost() (any, error) {
	f, name := c.fields(maxBody), c.path("name")
	if f.flag("tracing") {
		f.fail("this broker cannot trace messages; leave tracing out")
	}
	edit := vhostEdit(f, false)
	var draft node.VhostMetadata
	edit(&draft)
	if err := cmp.Or(f.err, draft.Check()); err != nil { // before anything is created
		return nil, err
	}
	created := c.node.Vhost(name) == nil
	if err := c.addVhost(name, edit); err != nil || !created {
		return made(false), err
	}
	// The creator of a virtual host gets all permissions there.
	_, err := c.node.EditUser(c.user.Name, false, func(u *node.User) {
		if _, ok := u.Permission(name); !ok {
			u.Permissions[name] = node.Everything()
		}
	})
	return made(created), err
}

// addVhost creates a virtual host unless it exists, and edits its metadata.
func (c *call) addVhost(name string, edit func(*node.VhostMetadata)) error {
	if err := c.node.AddVhost(name); err != nil {
		return err
	}
	if v := c.node.Vhost(name); v != nil {
		return v.Describe(edit)
	}
	return nil
}

func (c *call) deleteVhost() (any, error) { return done, c.node.DeleteVhost(c.vhost.Name) }
