package wire

type BasicQos struct {
	PrefetchSize  uint32
	PrefetchCount uint16
	Global        bool
}

func (*BasicQos) ID() MethodID { return IDBasicQos }

func (m *BasicQos) arguments(c *codec) {
	c.long(&m.PrefetchSize)
	c.short(&m.PrefetchCount)
	c.bits(&m.Global)
}

type BasicQosOK struct{ noArguments }

func (*BasicQosOK) ID() MethodID { return IDBasicQosOK }

type BasicConsume struct {
	Queue, ConsumerTag                string
	NoLocal, NoAck, Exclusive, NoWait bool
	Arguments                         Table
}

func (*BasicConsume) ID() MethodID { return IDBasicConsume }

func (m *BasicConsume) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.shortString(&m.ConsumerTag)
	c.bits(&m.NoLocal, &m.NoAck, &m.Exclusive, &m.NoWait)
	c.table(&m.Arguments)
}

type BasicConsumeOK struct {
	ConsumerTag string
}

func (*BasicConsumeOK) ID() MethodID         { return IDBasicConsumeOK }
func (m *BasicConsumeOK) arguments(c *codec) { c.shortString(&m.ConsumerTag) }

type BasicCancel struct {
	ConsumerTag string
	NoWait      bool
}

func (*BasicCancel) ID() MethodID { return IDBasicCancel }

func (m *BasicCancel) arguments(c *codec) {
	c.shortString(&m.ConsumerTag)
	c.bits(&m.NoWait)
}

type BasicCancelOK struct {
	ConsumerTag string
}

func (*BasicCancelOK) ID() MethodID         { return IDBasicCancelOK }
func (m *BasicCancelOK) arguments(c *codec) { c.shortString(&m.ConsumerTag) }

type BasicPublish struct {
	Exchange, RoutingKey string
	Mandatory, Immediate bool
}

func (*BasicPublish) ID() MethodID { return IDBasicPublish }

func (m *BasicPublish) arguments(c *codec) {
	c.anyBytes = true
	c.reservedShort()
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.bits(&m.Mandatory, &m.Immediate)
}

type BasicReturn struct {
	ReplyCode                       uint16
	ReplyText, Exchange, RoutingKey string
}

func (*BasicReturn) ID() MethodID { return IDBasicReturn }

func (m *BasicReturn) arguments(c *codec) {
	c.anyBytes = true
	c.short(&m.ReplyCode)
	c.shortString(&m.ReplyText)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
}

type BasicDeliver struct {
	ConsumerTag          string
	DeliveryTag          uint64
	Redelivered          bool
	Exchange, RoutingKey string
}

func (*BasicDeliver) ID() MethodID { return IDBasicDeliver }

func (m *BasicDeliver) arguments(c *codec) {
	c.anyBytes = true
	c.shortString(&m.ConsumerTag)
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Redelivered)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
}

type BasicGet struct {
	Queue string
	NoAck bool
}

func (*BasicGet) ID() MethodID { return IDBasicGet }

func (m *BasicGet) arguments(c *codec) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.NoAck)
}

type BasicGetOK struct {
	DeliveryTag          uint64
	Redelivered          bool
	Exchange, RoutingKey string
	MessageCount         uint32
}

func (*BasicGetOK) ID() MethodID { return IDBasicGetOK }

func (m *BasicGetOK) arguments(c *codec) {
	c.anyBytes = true
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Redelivered)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.long(&m.MessageCount)
}

type BasicGetEmpty struct{}

func (*BasicGetEmpty) ID() MethodID       { return IDBasicGetEmpty }
func (*BasicGetEmpty) arguments(c *codec) { c.reservedShortString() }

type BasicAck struct {
	DeliveryTag uint64
	Multiple    bool
}

func (*BasicAck) ID() MethodID { return IDBasicAck }

func (m *BasicAck) arguments(c *codec) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Multiple)
}

type BasicReject struct {
	DeliveryTag uint64
	Requeue     bool
}

func (*BasicReject) ID() MethodID { return IDBasicReject }

func (m *BasicReject) arguments(c *codec) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Requeue)
}

type BasicRecoverAsync struct {
	Requeue bool
}

func (*BasicRecoverAsync) ID() MethodID         { return IDBasicRecoverAsync }
func (m *BasicRecoverAsync) arguments(c *codec) { c.bits(&m.Requeue) }

type BasicRecover struct {
	Requeue bool
}

func (*BasicRecover) ID() MethodID         { return IDBasicRecover }
func (m *BasicRecover) arguments(c *codec) { c.bits(&m.Requeue) }

type BasicRecoverOK struct{ noArguments }

func (*BasicRecoverOK) ID() MethodID { return IDBasicRecoverOK }

type BasicNack struct {
	DeliveryTag       uint64
	Multiple, Requeue bool
}

func (*BasicNack) ID() MethodID { return IDBasicNack }

func (m *BasicNack) arguments(c *codec) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Multiple, &m.Requeue)
}
