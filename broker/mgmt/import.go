package mgmt

import (
	"fmt"
	"mime"
	"net/http"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

func (c *call) importAll() (any, error)   { return c.importInto(nil) }
func (c *call) importVhost() (any, error) { return c.importInto(c.vhost) }

// importInto adds definitions to those that are there. What is there already stays, even if it differs; users, permissions and policies are
// replaced. With a virtual host, all goes there.
func (c *call) importInto(only *node.Vhost) (any, error) {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &failure{http.StatusUnsupportedMediaType, "unsupported_media_type", "definitions must come as application/json"}
	}
	f, err := c.fields(maxLargeBody)
	if err != nil {
		return nil, err
	}
	im := importer{node: c.node, only: only}
	steps := []struct {
		key string
		add func(fields) error
	}{{"users", im.user}, {"vhosts", im.vhost}, {"permissions", im.permission}, {"topic_permissions", im.topicPermission},
		{"global_parameters", im.globalParameter}, {"parameters", im.parameter}, {"policies", im.policy}, {"queues", im.queue}, {"exchanges", im.exchange}, {"bindings", im.binding}}
	for _, step := range steps {
		definitions, err := f.objects(step.key)
		if err != nil {
			return nil, err
		}
		for i, definition := range definitions {
			if err := step.add(definition); err != nil {
				return nil, badRequest(fmt.Sprintf("%s %d %s: %v", step.key, i+1, describe(definition), asFailure(err).reason))
			}
		}
	}
	return done, nil
}

// describe names a definition in an error.
func describe(definition fields) string {
	for _, key := range []string{"name", "user", "source"} {
		if name, ok := definition[key].(string); ok {
			return fmt.Sprintf("%q", name)
		}
	}
	return "without a name"
}

// objects returns a list of JSON objects.
func (f fields) objects(key string) ([]fields, error) {
	if f[key] == nil {
		return nil, nil
	}
	entries, ok := f[key].([]any)
	if !ok {
		return nil, badRequest([]any{"not_list", key})
	}
	var all []fields
	for _, e := range entries {
		o, ok := e.(map[string]any)
		if !ok {
			return nil, badRequest([]any{"not_object", key})
		}
		all = append(all, o)
	}
	return all, nil
}

// parameter takes the policies of operators and limits; others belong to plugins that this broker does not have, and are refused: to leave them out
// in silence might let people in.
func (im importer) parameter(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	component, err := f.text("component", "")
	if err != nil {
		return err
	}
	name, err := f.text("name", "")
	if err != nil {
		return err
	}
	return putParameter(v, component, name, f)
}

func (im importer) globalParameter(f fields) error {
	name, err := f.text("name", "")
	if err != nil || name == "" {
		return badRequest("a global parameter needs a name")
	}
	_, err = setGlobalParameter(im.node, name, f)
	return err
}

func (im importer) topicPermission(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	user, err := f.text("user", "")
	if err != nil {
		return err
	}
	edit, err := topicEdit(f, v.Name)
	if err == nil {
		_, err = im.node.EditUser(user, false, edit)
	}
	return err
}

// importer makes what definitions say.
type importer struct {
	node *session.Server
	only *node.Vhost
}

// in returns the virtual host that a definition belongs to.
func (im importer) in(f fields) (*node.Vhost, error) {
	if im.only != nil {
		return im.only, nil
	}
	name, err := f.text("vhost", "")
	if err != nil {
		return nil, err
	}
	if v := im.node.Vhost(name); v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("no virtual host %q", name)
}

func (im importer) user(f fields) error {
	name, err := f.text("name", "")
	if err != nil || name == "" {
		return badRequest("a user needs a name")
	}
	edit, err := userEdit(f)
	if err == nil {
		_, err = im.node.EditUser(name, true, edit)
	}
	return err
}

func (im importer) vhost(f fields) error {
	name, err := f.text("name", "")
	if err != nil || name == "" {
		return badRequest("a virtual host needs a name")
	}
	edit, err := vhostEdit(f, true)
	if err != nil {
		return err
	}
	if err := im.node.AddVhost(name); err != nil {
		return err
	}
	if v := im.node.Vhost(name); v != nil {
		return v.Describe(edit)
	}
	return nil
}

func (im importer) permission(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	user, err := f.text("user", "")
	if err != nil {
		return err
	}
	p, err := readPermission(f)
	if err == nil {
		_, err = im.node.EditUser(user, false, func(u *node.User) { u.Permissions[v.Name] = p })
	}
	return err
}

func (im importer) policy(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	p, err := readPolicy(f)
	if err != nil {
		return err
	}
	if p.Name, err = f.text("name", ""); err != nil {
		return err
	}
	return v.PutPolicy(p)
}

func (im importer) queue(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	var q node.QueueSpec
	if q.Name, err = f.text("name", ""); err != nil || q.Name == "" {
		return badRequest("a queue needs a name")
	}
	if v.Queue(q.Name) != nil {
		return nil
	}
	if q.Durable, err = f.flag("durable"); err != nil {
		return err
	}
	if q.AutoDelete, err = f.flag("auto_delete"); err != nil {
		return err
	}
	if q.Arguments, err = f.arguments(); err != nil {
		return err
	}
	_, err = v.DeclareQueue(q)
	return err
}

func (im importer) exchange(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	var x node.Exchange
	if x.Name, err = f.text("name", ""); err != nil || x.Name == "" {
		return badRequest("an exchange needs a name")
	}
	if v.Exchange(x.Name) != nil {
		return nil
	}
	kind, err := f.text("type", "")
	if err != nil {
		return err
	}
	known := false
	if x.Kind, known = exchange.ParseKind(kind); !known {
		return fmt.Errorf("unknown exchange type '%s'", kind)
	}
	for key, flag := range map[string]*bool{"durable": &x.Durable, "auto_delete": &x.AutoDelete, "internal": &x.Internal} {
		if *flag, err = f.flag(key); err != nil {
			return err
		}
	}
	if x.Arguments, err = f.arguments(); err != nil {
		return err
	}
	return v.DeclareExchange(x)
}

func (im importer) binding(f fields) error {
	v, err := im.in(f)
	if err != nil {
		return err
	}
	var b node.Binding
	for key, text := range map[string]*string{"source": &b.Source, "destination": &b.Destination, "destination_type": &b.Kind, "routing_key": &b.Key} {
		if *text, err = f.text(key, ""); err != nil {
			return err
		}
	}
	if b.Kind != "queue" && b.Kind != "exchange" {
		return fmt.Errorf("destination_type %q must be queue or exchange", b.Kind)
	}
	if b.Arguments, err = f.arguments(); err != nil {
		return err
	}
	if b.Source == "" {
		return nil // every queue is bound to the default exchange
	}
	return v.BindNamed(b)
}
