package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

func (c *call) exchanges() (any, error) {
	all := list{}
	for _, v := range c.visible() {
		for _, x := range v.Exchanges() {
			all = append(all, exchangeObject(v, x))
		}
	}
	return all, nil
}

// exchangeName returns the name in the path; the exchange that has none is named there too.
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
	o := exchangeObject(c.vhost, x)
	o["incoming"], o["outgoing"] = list{}, list{}
	return o, nil
}

func exchangeObject(v *node.Vhost, x *node.Exchange) object {
	o := object{"name": printable(x.Name), "vhost": printable(v.Name), "type": x.Kind, "durable": x.Durable, "auto_delete": x.AutoDelete,
		"internal": x.Internal, "arguments": shown(x.Arguments)}
	if policy := x.Policy(); policy != "" {
		o["policy"] = printable(policy)
	}
	return o
}

func (c *call) declareExchange() (any, error) {
	f, err := c.fields(maxBody)
	if err != nil {
		return nil, err
	}
	m := &wire.ExchangeDeclare{Exchange: c.exchangeName("exchange")}
	if m.Type, err = f.text("type", "direct"); err != nil {
		return nil, err
	}
	for key, flag := range map[string]*bool{"durable": &m.Durable, "auto_delete": &m.AutoDelete, "internal": &m.Internal} {
		if *flag, err = f.flag(key); err != nil {
			return nil, err
		}
	}
	if m.Arguments, err = f.arguments(); err != nil {
		return nil, err
	}
	created := c.vhost.Exchange(m.Exchange) == nil
	return made(created), c.ask(m)
}

func (c *call) deleteExchange() (any, error) {
	m := &wire.ExchangeDelete{Exchange: c.exchangeName("exchange")}
	if c.vhost.Exchange(m.Exchange) == nil {
		return nil, notFound()
	}
	var err error
	if m.IfUnused, err = c.condition("if-unused"); err != nil {
		return nil, err
	}
	return done, c.ask(m)
}
