package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// exchangeName returns the name of an exchange in the path. The default exchange has a name only there.
func (c *call) exchangeName(key string) string {
	name := c.path(key)
	if name == defaultExchange {
		return ""
	}
	return name
}

func (c *call) oneExchange() (any, error) {
	x := c.vhost.Exchange(c.exchangeName("exchange"))
	if x == nil {
		return nil, notFound()
	}
	o := exchangeObject(c, c.vhost, x)
	o["incoming"], o["outgoing"] = list{}, list{}
	return o, nil
}

func exchangeObject(_ *call, v *node.Vhost, x *node.Exchange) object {
	o := object{"name": printable(x.Name), "vhost": printable(v.Name), "type": x.Kind, "durable": x.Durable, "auto_delete": x.AutoDelete,
		"internal": x.Internal, "arguments": shown(x.Arguments)}
	if policy := x.Policy(); policy != "" {
		o["policy"] = printable(policy)
	}
	return o
}

func (c *call) declareExchange() (any, error) {
	f := c.fields(maxBody)
	m := &wire.ExchangeDeclare{Exchange: c.exchangeName("exchange"), Type: f.text("type", "direct"), Durable: f.flag("durable"),
		AutoDelete: f.flag("auto_delete"), Internal: f.flag("internal"), Arguments: f.arguments()}
	if f.err != nil {
		return nil, f.err
	}
	created := c.vhost.Exchange(m.Exchange) == nil
	return made(created), c.ask(m)
}

func (c *call) deleteExchange() (any, error) {
	q := c.query()
	m := &wire.ExchangeDelete{Exchange: c.exchangeName("exchange"), IfUnused: q.flag("if-unused")}
	if c.vhost.Exchange(m.Exchange) == nil {
		return nil, notFound()
	}
	if q.err != nil {
		return nil, q.err
	}
	return done, c.ask(m)
}
