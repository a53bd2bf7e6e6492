package wire

type QueueDeclare struct {
	Queue                                           string
	Passive, Durable, Exclusive, AutoDelete, NoWait bool
	Arguments                                       Table
}

func (*QueueDeclare) ID() MethodID { return IDQueueDeclare }

func (m *QueueDeclare) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.Passive, &m.Durable, &m.Exclusive, &m.AutoDelete, &m.NoWait)
	c.table(&m.Arguments)
}

type QueueDeclareOK struct {
	Queue                       string
	MessageCount, ConsumerCount uint32
}

func (*QueueDeclareOK) ID() MethodID { return IDQueueDeclareOK }

func (m *QueueDeclareOK) arguments(c *codec) {
	c.shortString(&m.Queue)
	c.long(&m.MessageCount)
	c.long(&m.ConsumerCount)
}

type QueueBind struct {
	Queue, Exchange, RoutingKey string
	NoWait                      bool
	Arguments                   Table
}

func (*QueueBind) ID() MethodID { return IDQueueBind }

func (m *QueueBind) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.bits(&m.NoWait)
	c.table(&m.Arguments)
}

type QueueBindOK struct{ noArguments }

func (*QueueBindOK) ID() MethodID { return IDQueueBindOK }

type QueueUnbind struct {
	Queue, Exchange, RoutingKey string
	Arguments                   Table
}

func (*QueueUnbind) ID() MethodID { return IDQueueUnbind }

func (m *QueueUnbind) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.table(&m.Arguments)
}

type QueueUnbindOK struct{ noArguments }

func (*QueueUnbindOK) ID() MethodID { return IDQueueUnbindOK }

type QueuePurge struct {
	Queue  string
	NoWait bool
}

func (*QueuePurge) ID() MethodID { return IDQueuePurge }

func (m *QueuePurge) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.NoWait)
}

type QueuePurgeOK struct {
	MessageCount uint32
}

func (*QueuePurgeOK) ID() MethodID         { return IDQueuePurgeOK }
func (m *QueuePurgeOK) arguments(c *codec) { c.long(&m.MessageCount) }

type QueueDelete struct {
	Queue                     string
	IfUnused, IfEmpty, NoWait bool
}

func (*QueueDelete) ID() MethodID { return IDQueueDelete }

func (m *QueueDelete) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.IfUnused, &m.IfEmpty, &m.NoWait)
}

type QueueDeleteOK struct {
	MessageCount uint32
}

func (*QueueDeleteOK) ID() MethodID         { return IDQueueDeleteOK }
func (m *QueueDeleteOK) arguments(c *codec) { c.long(&m.MessageCount) }
