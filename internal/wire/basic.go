package wire

type BasicQos struct {
	PrefetchSize  uint32
	PrefetchCount uint16
	Global        bool
}

type BasicQosOK struct{}

type BasicConsume struct {
	_                                 uint16
	Queue, ConsumerTag                string
	NoLocal, NoAck, Exclusive, NoWait bool
	Arguments                         Table
}

type BasicConsumeOK struct{ ConsumerTag string }

type BasicCancel struct {
	ConsumerTag string
	NoWait      bool
}

type BasicCancelOK struct{ ConsumerTag string }

type BasicPublish struct {
	_                    uint16
	Exchange, RoutingKey string
	Mandatory, Immediate bool
}

type BasicReturn struct {
	ReplyCode                       uint16
	ReplyText, Exchange, RoutingKey string
}

type BasicDeliver struct {
	ConsumerTag          string
	DeliveryTag          uint64
	Redelivered          bool
	Exchange, RoutingKey string
}

type BasicGet struct {
	_     uint16
	Queue string
	NoAck bool
}

type BasicGetOK struct {
	DeliveryTag          uint64
	Redelivered          bool
	Exchange, RoutingKey string
	MessageCount         uint32
}

type BasicGetEmpty struct{ _ string }

type BasicAck struct {
	DeliveryTag uint64
	Multiple    bool
}

type BasicReject struct {
	DeliveryTag uint64
	Requeue     bool
}

type BasicRecoverAsync struct{ Requeue bool }
type BasicRecover struct{ Requeue bool }
type BasicRecoverOK struct{}

type BasicNack struct {
	DeliveryTag       uint64
	Multiple, Requeue bool
}

func (*BasicQos) ID() MethodID          { return IDBasicQos }
func (*BasicQosOK) ID() MethodID        { return IDBasicQosOK }
func (*BasicConsume) ID() MethodID      { return IDBasicConsume }
func (*BasicConsumeOK) ID() MethodID    { return IDBasicConsumeOK }
func (*BasicCancel) ID() MethodID       { return IDBasicCancel }
func (*BasicCancelOK) ID() MethodID     { return IDBasicCancelOK }
func (*BasicPublish) ID() MethodID      { return IDBasicPublish }
func (*BasicReturn) ID() MethodID       { return IDBasicReturn }
func (*BasicDeliver) ID() MethodID      { return IDBasicDeliver }
func (*BasicGet) ID() MethodID          { return IDBasicGet }
func (*BasicGetOK) ID() MethodID        { return IDBasicGetOK }
func (*BasicGetEmpty) ID() MethodID     { return IDBasicGetEmpty }
func (*BasicAck) ID() MethodID          { return IDBasicAck }
func (*BasicReject) ID() MethodID       { return IDBasicReject }
func (*BasicRecoverAsync) ID() MethodID { return IDBasicRecoverAsync }
func (*BasicRecover) ID() MethodID      { return IDBasicRecover }
func (*BasicRecoverOK) ID() MethodID    { return IDBasicRecoverOK }
func (*BasicNack) ID() MethodID         { return IDBasicNack }
