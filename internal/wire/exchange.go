package wire

type ExchangeDeclare struct {
	Exchange, Type                                 string
	Passive, Durable, AutoDelete, Internal, NoWait bool
	Arguments                                      Table
}

func (*ExchangeDeclare) ID() MethodID { return IDExchangeDeclare }

func (m *ExchangeDeclare) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Exchange)
	c.shortString(&m.Type)
	c.bits(&m.Passive, &m.Durable, &m.AutoDelete, &m.Internal, &m.NoWait)
	c.table(&m.Arguments)
}

type ExchangeDeclareOK struct{ noArguments }

func (*ExchangeDeclareOK) ID() MethodID { return IDExchangeDeclareOK }

type ExchangeDelete struct {
	Exchange         string
	IfUnused, NoWait bool
}

func (*ExchangeDelete) ID() MethodID { return IDExchangeDelete }

func (m *ExchangeDelete) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Exchange)
	c.bits(&m.IfUnused, &m.NoWait)
}

type ExchangeDeleteOK struct{ noArguments }

func (*ExchangeDeleteOK) ID() MethodID { return IDExchangeDeleteOK }

type ExchangeBind struct {
	Destination, Source, RoutingKey string
	NoWait                          bool
	Arguments                       Table
}

func (*ExchangeBind) ID() MethodID { return IDExchangeBind }

func (m *ExchangeBind) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Destination)
	c.shortString(&m.Source)
	c.shortString(&m.RoutingKey)
	c.bits(&m.NoWait)
	c.table(&m.Arguments)
}

type ExchangeBindOK struct{ noArguments }

func (*ExchangeBindOK) ID() MethodID { return IDExchangeBindOK }

type ExchangeUnbind ExchangeBind

func (*ExchangeUnbind) ID() MethodID { return IDExchangeUnbind }

func (m *ExchangeUnbind) arguments(c *codec) { (*ExchangeBind)(m).arguments(c) }

type ExchangeUnbindOK struct{ noArguments }

func (*ExchangeUnbindOK) ID() MethodID { return IDExchangeUnbindOK }
