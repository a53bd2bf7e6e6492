package mgmt

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

func (c *call) bindings() (any, error) {
	all := list{}
	for _, v := range c.visible() {
		for _, b := range v.Bindings() {
			all = append(all, bindingObject(v.Name, b))
		}
	}
	return all, nil
}

func bindingObject(vhost string, b node.Binding) object {
	return object{"source": printable(b.Source), "vhost": printable(vhost), "destination": printable(b.Destination), "destination_type": b.Kind,
		"routing_key": printable(b.Key), "arguments": shown(b.Arguments), "properties_key": propertiesKey(b)}
}

// propertiesKey tells bindings between the same two apart: by the routing key, and a hash of the arguments if there are any.
func propertiesKey(b node.Binding) string {
	key := strings.ReplaceAll(url.QueryEscape(b.Key), "+", "%20")
	if len(b.Arguments) == 0 {
		if key == "" {
			return "~"
		}
		return strings.ReplaceAll(key, "~", "%7E")
	}
	hash := fnv.New32a()
	_, _ = hash.Write(wire.AppendTable(nil, b.Arguments)) // never fails
	return strings.ReplaceAll(key, "~", "%7E") + "~" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, hash.Sum32()))
}

// chosen lists the bindings of the path's virtual host that fit.
func (c *call) chosen(fits func(node.Binding) bool) list {
	all := list{}
	for _, b := range c.vhost.Bindings() {
		if fits(b) {
			all = append(all, bindingObject(c.vhost.Name, b))
		}
	}
	return all
}

func (c *call) bindingsFromExchange() (any, error) {
	name := c.exchangeName("exchange")
	return c.chosen(func(b node.Binding) bool { return b.Source == name }), nil
}

func (c *call) bindingsToExchange() (any, error) {
	name := c.exchangeName("exchange")
	return c.chosen(func(b node.Binding) bool { return b.Kind == "exchange" && b.Destination == name }), nil
}

func (c *call) bindingsToQueue() (any, error) {
	name := c.path("queue")
	return c.chosen(func(b node.Binding) bool { return b.Kind == "queue" && b.Destination == name }), nil
}

// ends returns what the path says of a binding.
func (c *call) ends() (node.Binding, error) {
	b := node.Binding{Source: c.exchangeName("source"), Destination: c.path("destination")}
	switch c.path("kind") {
	case "q":
		b.Kind = "queue"
	case "e":
		b.Kind = "exchange"
	default:
		return b, notFound()
	}
	return b, nil
}

func between(ends node.Binding) func(node.Binding) bool {
	return func(b node.Binding) bool {
		return b.Source == ends.Source && b.Kind == ends.Kind && b.Destination == ends.Destination
	}
}

func (c *call) bindingsBetween() (any, error) {
	ends, err := c.ends()
	if err != nil {
		return nil, err
	}
	return c.chosen(between(ends)), nil
}

// named returns the one binding that the path names.
func (c *call) named() (node.Binding, error) {
	ends, err := c.ends()
	if err != nil {
		return ends, err
	}
	key := c.path("key")
	for _, b := range c.vhost.Bindings() {
		if between(ends)(b) && propertiesKey(b) == key {
			return b, nil
		}
	}
	return ends, notFound()
}

func (c *call) oneBinding() (any, error) {
	b, err := c.named()
	return bindingObject(c.vhost.Name, b), err
}

func (c *call) bind() (any, error) {
	b, err := c.ends()
	if err != nil {
		return nil, err
	}
	f, err := c.fields(maxBody)
	if err != nil {
		return nil, err
	}
	if b.Key, err = f.text("routing_key", ""); err != nil {
		return nil, err
	}
	if b.Arguments, err = f.arguments(); err != nil {
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
	b, err := c.named()
	if err != nil {
		return nil, err
	}
	if b.Kind == "exchange" {
		return done, c.ask(&wire.ExchangeUnbind{Destination: b.Destination, Source: b.Source, RoutingKey: b.Key, Arguments: b.Arguments})
	}
	return done, c.ask(&wire.QueueUnbind{Queue: b.Destination, Exchange: b.Source, RoutingKey: b.Key, Arguments: b.Arguments})
}
