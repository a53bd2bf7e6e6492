package wire

type QueueDeclare struct {
	_                                               uint16
	Queue                                           string
	Passive, Durable, Exclusive, AutoDelete, NoWait bool
	Arguments                                       Table
}

type QueueDeclareOK struct {
	Queue                       string
	MessageCount, ConsumerCount uint32
}

type QueueBind struct {
	_                           uint16
	Queue, Exchange, RoutingKey string
	NoWait                      bool
	Arguments                   Table
}

type QueueBindOK struct{}

type QueueUnbind struct {
	_                           uint16
	Queue, Exchange, RoutingKey string
	Arguments                   Table
}

type QueueUnbindOK struct{}

type QueuePurge struct {
	_      uint16
	Queue  string
	NoWait bool
}

type QueuePurgeOK struct{ MessageCount uint32 }

type QueueDelete struct {
	_                         uint16
	Queue                     string
	IfUnused, IfEmpty, NoWait bool
}

type QueueDeleteOK struct{ MessageCount uint32 }

func (*QueueDeclare) ID() MethodID   { return IDQueueDeclare }
func (*QueueDeclareOK) ID() MethodID { return IDQueueDeclareOK }
func (*QueueBind) ID() MethodID      { return IDQueueBind }
func (*QueueBindOK) ID() MethodID    { return IDQueueBindOK }
func (*QueueUnbind) ID() MethodID    { return IDQueueUnbind }
func (*QueueUnbindOK) ID() MethodID  { return IDQueueUnbindOK }
func (*QueuePurge) ID() MethodID     { return IDQueuePurge }
func (*QueuePurgeOK) ID() MethodID   { return IDQueuePurgeOK }
func (*QueueDelete) ID() MethodID    { return IDQueueDelete }
func (*QueueDeleteOK) ID() MethodID  { return IDQueueDeleteOK }
