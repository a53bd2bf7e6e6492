package mgmt

import (
	"fmt"
	"mime"
	"net/http"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/node"
)

// importDefinitions adds definitions to the existing ones. Existing queues, exchanges and bindings stay, even if they
// differ; users, permissions, policies and parameters are replaced. If the path has a virtual host, everything goes there.
func (c *call) importDefinitions() (any, error) {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &failure{http.StatusUnsupportedMediaType, "unsupported_media_type", "definitions must come as application/json"}
	}
	f := c.fields(maxLargeBody)
	for _, step := range c.importSteps() {
		definitions := f.objects(step.key)
		if f.err != nil {
			return nil, f.err
		}
		for i, definition := range definitions {
			if err := step.add(definition); err != nil {
				return nil, badRequest(fmt.Sprintf("%s %d %s: %v", step.key, i+1, describe(definition), asFailure(err).reason))
			}
		}
	}
	return done, nil
}

// importStep adds the definitions of one kind.
type importStep struct {
	key string
	add func(*fields) error
}

// importSteps is the order in which definitions are added: some refer to those before.
func (c *call) importSteps() []importStep {
	return []importStep{{"users", c.importUser}, {"vhosts", c.importVhost}, {"permissions", c.importPermission}, {"topic_permissions", c.importTopicPermission},
		{"global_parameters", c.importGlobalParameter}, {"parameters", c.importParameter}, {"policies", c.importPolicy}, {"queues", c.importQueue},
		{"exchanges", c.importExchange}, {"bindings", c.importBinding}}
}

// describe names a definition in an error.
func describe(definition *fields) string {
	for _, key := range []string{"name", "user", "source"} {
		if name, ok := definition.values[key].(string); ok {
			return fmt.Sprintf("%q", name)
		}
	}
	return "without a name"
}

// objects returns a list of JSON objects.
func (f *fields) objects(key string) (all []*fields) {
	if f.values[key] == nil {
		return nil
	}
	entries, ok := f.values[key].([]any)
	if !ok {
		f.fail([]any{"not_list", key})
	}
	for _, e := range entries {
		o, ok := e.(map[string]any)
		if !ok {
			f.fail([]any{"not_object", key})
		}
		all = append(all, &fields{values: o})
	}
	return all
}

// vhostOf returns the virtual host that a definition belongs to.
func (c *call) vhostOf(f *fields) *node.Vhost {
	if c.vhost != nil {
		return c.vhost
	}
	name := f.text("vhost", "")
	v := c.node.Vhost(name)
	if v == nil {
		f.failWith(fmt.Errorf("no virtual host %q", name))
	}
	return v
}

// importToUser changes a user. Definitions of RabbitMQ usually contain guest: where it is excluded, nothing is imported
// for it.
func (c *call) importToUser(f *fields, name string, create bool, edit func(*node.User)) error {
	if f.err == nil && c.node.Excludes(name) {
		c.node.Log.Warn("a user was not imported, because the configuration has users", "user", name)
		return nil
	}
	_, err := c.editUser(f, name, create, edit)
	return err
}

// editUser changes a user, unless a field could not be read.
func (c *call) editUser(f *fields, name string, create bool, edit func(*node.User)) (created bool, err error) {
	if f.err != nil {
		return false, f.err
	}
	return c.node.EditUser(name, create, edit)
}

func (c *call) importUser(f *fields) error {
	return c.importToUser(f, f.name("a user"), true, userEdit(f))
}

func (c *call) importVhost(f *fields) error {
	name, edit := f.name("a virtual host"), vhostEdit(f, true)
	if f.err != nil {
		return f.err
	}
	return c.addVhost(name, edit)
}

func (c *call) importPermission(f *fields) error {
	v, user, p := c.vhostOf(f), f.text("user", ""), f.permission()
	return c.importToUser(f, user, false, func(u *node.User) { u.Permissions[v.Name] = p })
}

func (c *call) importTopicPermission(f *fields) error {
	v, user := c.vhostOf(f), f.text("user", "")
	return c.importToUser(f, user, false, topicEdit(f, v))
}

func (c *call) importGlobalParameter(f *fields) error {
	name := f.name("a global parameter")
	if f.err != nil {
		return f.err
	}
	_, err := setGlobalParameter(c.node, name, f)
	return err
}

// importParameter takes policies of operators and limits. Others belong to plugins that this broker does not have. They
// are refused, because to ignore them could give access to users who should not have it.
func (c *call) importParameter(f *fields) error {
	v, component, name := c.vhostOf(f), f.text("component", ""), f.text("name", "")
	if f.err != nil {
		return f.err
	}
	return putParameter(v, component, name, f)
}

func (c *call) importPolicy(f *fields) error {
	v, p := c.vhostOf(f), f.policy()
	p.Name = f.text("name", "")
	if f.err != nil {
		return f.err
	}
	return v.PutPolicy(p)
}

func (c *call) importQueue(f *fields) error {
	v, name := c.vhostOf(f), f.name("a queue")
	if f.err != nil || v.Queue(name) != nil {
		return f.err
	}
	q := node.QueueSpec{Name: name, Durable: f.flag("durable"), AutoDelete: f.flag("auto_delete"), Arguments: f.arguments()}
	if f.err != nil {
		return f.err
	}
	_, err := v.DeclareQueue(q)
	return err
}

func (c *call) importExchange(f *fields) error {
	v, name := c.vhostOf(f), f.name("an exchange")
	if f.err != nil || v.Exchange(name) != nil {
		return f.err
	}
	typ := f.text("type", "")
	kind, known := exchange.ParseKind(typ)
	if !known {
		f.failWith(fmt.Errorf("unknown exchange type '%s'", typ))
	}
	x := node.Exchange{Name: name, Kind: kind, Durable: f.flag("durable"), AutoDelete: f.flag("auto_delete"), Internal: f.flag("internal"), Arguments: f.arguments()}
	if f.err != nil {
		return f.err
	}
	return v.DeclareExchange(x)
}

func (c *call) importBinding(f *fields) error {
	v := c.vhostOf(f)
	b := node.Binding{Source: f.text("source", ""), Destination: f.text("destination", ""), Kind: f.text("destination_type", ""), Key: f.text("routing_key", "")}
	if b.Kind != "queue" && b.Kind != "exchange" {
		f.failWith(fmt.Errorf("destination_type %q must be queue or exchange", b.Kind))
	}
	b.Arguments = f.arguments()
	if f.err != nil || b.Source == "" { // every queue is bound to the default exchange
		return f.err
	}
	return v.BindNamed(b)
}
