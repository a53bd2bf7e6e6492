package mgmt

import (
	"cmp"
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

func bindingObject(_ *call, v *node.Vhost, b node.Binding) object {
	return object{"source": printable(b.Source), "vhost": printable(v.Name), "destination": printable(b.Destination), "destination_type": b.Kind,
		"routing_key": printable(b.Key), "arguments": shown(b.Arguments), "properties_key": propertiesKey(b)}
}

// propertiesKey identifies one of the bindings between the same source and destination: by the routing key, and a hash
// of the arguments if there are any.
func propertiesKey(b node.Binding) string {
	key := strings.NewReplacer("+", "%20", "~", "%7E").Replace(url.QueryEscape(b.Key))
	if len(b.Arguments) == 0 {
		return cmp.Or(key, "~")
	}
	hash := fnv.New32a()
	_, _ = hash.Write(wire.AppendTable(nil, b.Arguments)) // never fails
	return key + "~" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
}

// bindingsWhere lists the bindings in the virtual host of the path that match.
func (c *call) bindingsWhere(matches func(node.Binding) bool) list {
	all := list{}
	for _, b := range c.vhost.Bindings() {
		if matches(b) {
			all = append(all, bindingObject(c, c.vhost, b))
		}
	}
	return all
}

func (c *call) bindingsFromExchange() (any, error) {
	name := c.exchangeName("exchange")
	return c.bindingsWhere(func(b node.Binding) bool { return b.Source == name }), nil
}

func (c *call) bindingsToExchange() (any, error) {
	name := c.exchangeName("exchange")
	return c.bindingsWhere(func(b node.Binding) bool { return b.Kind == "exchange" && b.Destination == name }), nil
}

func (c *call) bindingsToQueue() (any, error) {
	name := c.path("queue")
	return c.bindingsWhere(func(b node.Binding) bool { return b.Kind == "queue" && b.Destination == name }), nil
}

// ends returns the source and the destination of a binding in the path.
func (c *call) ends() (node.Binding, error) {
	kind := map[string]string{"q": "queue", "e": "exchange"}[c.path("kind")]
	if kind == "" {
		return node.Binding{}, notFound()
	}
	return node.Binding{Source: c.exchangeName("source"), Kind: kind, Destination: c.path("destination")}, nil
}

func between(ends node.Binding) func(node.Binding) bool {
	return func(b node.Binding) bool {
		return b.Source == ends.Source && b.Kind == ends.Kind && b.Destination == ends.Destination
	}
}

func (c *call) bindingsBetween() (any, error) {
	ends, err := c.ends()
	return c.bindingsWhere(between(ends)), err
}

// bindingInPath returns the one binding that the path names.
func (c *call) bindingInPath() (node.Binding, error) {
	ends, err := c.ends()
	if err != nil {
		return ends, err
	}
	for _, b := range c.vhost.Bindings() {
		if between(ends)(b) && propertiesKey(b) == c.path("key") {
			return b, nil
		}
	}
	return ends, notFound()
}

func (c *call) oneBinding() (any, error) {
	b, err := c.bindingInPath()
	return bindingObject(c, c.vhost, b), err
}

func (c *call) bind() (any, error) {
	b, err := c.ends()
	f := c.fields(maxBody)
	b.Key, b.Arguments = f.text("routing_key", ""), f.arguments()
	if err := cmp.Or(err, f.err); err != nil {
		return nil, err
	}
	var m wire.Method = &wire.QueueBind{Queue: b.Destination, Exchange: b.Source, RoutingKey: b.Key, Arguments: b.Arguments}
	if b.Kind == "exchange" {
		m = &wire.ExchangeBind{Destination: b.Destination, Source: b.Source, RoutingKey: b.Key, Arguments: b.Arguments}
	}
	if err := c.ask(m); err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", url.PathEscape(b.Destination)+"/"+url.PathEscape(propertiesKey(b)))
	return status(http.StatusCreated), nil
}

func (c *call) unbind() (any, error) {
	b, err := c.bindingInPath()
	if err != nil {
		return nil, err
	}
	if b.Kind == "exchange" {
		return done, c.ask(&wire.ExchangeUnbind{Destination: b.Destination, Source: b.Source, RoutingKey: b.Key, Arguments: b.Arguments})
	}
	return done, c.ask(&wire.QueueUnbind{Queue: b.Destination, Exchange: b.Source, RoutingKey: b.Key, Arguments: b.Arguments})
}
