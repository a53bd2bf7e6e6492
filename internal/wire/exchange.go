package wire

type ExchangeDeclare struct {
	_                                              uint16
	Exchange, Type                                 string
	Passive, Durable, AutoDelete, Internal, NoWait bool
	Arguments                                      Table
}

type ExchangeDeclareOK struct{}

type ExchangeDelete struct {
	_                uint16
	Exchange         string
	IfUnused, NoWait bool
}

type ExchangeDeleteOK struct{}

type ExchangeBind struct {
	_                               uint16
	Destination, Source, RoutingKey string
	NoWait                          bool
	Arguments                       Table
}

type ExchangeBindOK struct{}
type ExchangeUnbind ExchangeBind
type ExchangeUnbindOK struct{}

func (*ExchangeDeclare) ID() MethodID   { return IDExchangeDeclare }
func (*ExchangeDeclareOK) ID() MethodID { return IDExchangeDeclareOK }
func (*ExchangeDelete) ID() MethodID    { return IDExchangeDelete }
func (*ExchangeDeleteOK) ID() MethodID  { return IDExchangeDeleteOK }
func (*ExchangeBind) ID() MethodID      { return IDExchangeBind }
func (*ExchangeBindOK) ID() MethodID    { return IDExchangeBindOK }
func (*ExchangeUnbind) ID() MethodID    { return IDExchangeUnbind }
func (*ExchangeUnbindOK) ID() MethodID  { return IDExchangeUnbindOK }
