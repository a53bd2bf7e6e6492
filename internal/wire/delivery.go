package wire

import "encoding/binary"

// Publish, deliver, ack and nack come once per message. Here they are read and written without
// allocations.

// PublishArgs are the arguments of basic.publish. The slices are parts of the payload.
type PublishArgs struct {
	Exchange, RoutingKey []byte
	Mandatory, Immediate bool
}

// ParsePublish reads what ParseMethod would return as a *BasicPublish.
func ParsePublish(payload []byte) (PublishArgs, error) {
	c, err := openArguments(IDBasicPublish, payload)
	if err != nil {
		return PublishArgs{}, err
	}
	var p PublishArgs
	c.take(2) // reserved
	p.Exchange = c.readShort()
	p.RoutingKey = c.readShort()
	c.bits(&p.Mandatory, &p.Immediate)
	return p, c.endOfMethod(IDBasicPublish, payload)
}

// AckArgs are the arguments of basic.ack.
type AckArgs struct {
	Tag      uint64
	Multiple bool
}

// ParseAck reads what ParseMethod would return as a *BasicAck.
func ParseAck(payload []byte) (AckArgs, error) {
	c, err := openArguments(IDBasicAck, payload)
	if err != nil {
		return AckArgs{}, err
	}
	a := AckArgs{Tag: c.readUint64()}
	c.bits(&a.Multiple)
	return a, c.endOfMethod(IDBasicAck, payload)
}

// AppendDeliver appends a basic.deliver frame. It adds nothing when a string has more than 255 bytes.
func AppendDeliver(dst []byte, channel uint16, consumerTag string, deliveryTag uint64, redelivered bool, exchange, routingKey string) []byte {
	c := openMethod(dst, channel, IDBasicDeliver)
	c.writeShort(consumerTag)
	c.buf = binary.BigEndian.AppendUint64(c.buf, deliveryTag)
	c.bits(&redelivered)
	c.writeShort(exchange)
	c.writeShort(routingKey)
	return c.closeMethod(dst)
}

// AppendAck appends a basic.ack frame.
func AppendAck(dst []byte, channel uint16, tag uint64, multiple bool) []byte {
	c := openMethod(dst, channel, IDBasicAck)
	c.buf = binary.BigEndian.AppendUint64(c.buf, tag)
	c.bits(&multiple)
	return c.closeMethod(dst)
}

// AppendNack appends a basic.nack frame.
func AppendNack(dst []byte, channel uint16, tag uint64, multiple, requeue bool) []byte {
	c := openMethod(dst, channel, IDBasicNack)
	c.buf = binary.BigEndian.AppendUint64(c.buf, tag)
	c.bits(&multiple, &requeue)
	return c.closeMethod(dst)
}

// openArguments begins to read the arguments of the method that the payload must hold.
func openArguments(want MethodID, payload []byte) (codec, error) {
	id, ok := PeekMethod(payload)
	if !ok || id != want {
		return codec{}, Frame{Type: FrameMethod, Payload: payload}.Unexpected()
	}
	return codec{buf: payload[methodIDSize:]}, nil
}
