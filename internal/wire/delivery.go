package wire

// The methods that come once per message are read and written here without allocating.

// PublishArgs are the arguments of basic.publish. Its slices are parts of the payload.
type PublishArgs struct {
	Exchange, RoutingKey []byte
	Mandatory, Immediate bool
}

// ParsePublish reads what ParseMethod would return as a *BasicPublish.
func ParsePublish(payload []byte) (PublishArgs, error) {
	c, err := argumentsOf(IDBasicPublish, payload)
	if err != nil {
		return PublishArgs{}, err
	}
	var p PublishArgs
	c.take(2) // reserved
	p.Exchange = c.readShort()
	p.RoutingKey = c.readShort()
	c.bits(&p.Mandatory, &p.Immediate)
	if err := c.readArguments(IDBasicPublish, payload); err != nil {
		return PublishArgs{}, err
	}
	return p, nil
}

// AckArgs are the arguments of basic.ack.
type AckArgs struct {
	Tag      uint64
	Multiple bool
}

// ParseAck reads what ParseMethod would return as a *BasicAck.
func ParseAck(payload []byte) (AckArgs, error) {
	c, err := argumentsOf(IDBasicAck, payload)
	if err != nil {
		return AckArgs{}, err
	}
	var a AckArgs
	c.longLong(&a.Tag)
	c.bits(&a.Multiple)
	if err := c.readArguments(IDBasicAck, payload); err != nil {
		return AckArgs{}, err
	}
	return a, nil
}

// AppendDeliver appends a basic.deliver frame. It adds nothing when a string has more than 255 bytes.
func AppendDeliver(dst []byte, channel uint16, consumerTag string, deliveryTag uint64, redelivered bool, exchange, routingKey string) []byte {
	c := codec{writing: true, buf: openMethod(dst, channel, IDBasicDeliver)}
	c.writeShort(consumerTag)
	c.longLong(&deliveryTag)
	c.bits(&redelivered)
	c.writeShort(exchange)
	c.writeShort(routingKey)
	if c.fault != nil {
		return dst
	}
	return closeFrame(c.buf, len(dst))
}

// AppendAck appends a basic.ack frame.
func AppendAck(dst []byte, channel uint16, tag uint64, multiple bool) []byte {
	c := codec{writing: true, buf: openMethod(dst, channel, IDBasicAck)}
	c.longLong(&tag)
	c.bits(&multiple)
	return closeFrame(c.buf, len(dst))
}

// AppendNack appends a basic.nack frame.
func AppendNack(dst []byte, channel uint16, tag uint64, multiple, requeue bool) []byte {
	c := codec{writing: true, buf: openMethod(dst, channel, IDBasicNack)}
	c.longLong(&tag)
	c.bits(&multiple, &requeue)
	return closeFrame(c.buf, len(dst))
}

// argumentsOf begins to read the arguments of a method that the payload has to hold.
func argumentsOf(want MethodID, payload []byte) (codec, error) {
	id, ok := PeekMethod(payload)
	if !ok || id != want {
		return codec{}, Frame{Type: FrameMethod, Payload: payload}.Unexpected()
	}
	return codec{buf: payload[methodIDSize:]}, nil
}
