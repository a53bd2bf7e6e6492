package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// methodIDSize is the size of a MethodID on the wire.
const methodIDSize = 4

// Method is a method with its arguments: a pointer to one of this package's structs.
//
// The fields of such a struct describe the arguments, in their order. Strings are short strings, byte
// slices are long strings, and adjacent bools share an octet. Blank fields are reserved by AMQP: they
// are written as zero, and ignored when they are read.
type Method interface {
	ID() MethodID
}

// ParseMethod reads the payload of a method frame. Its error is a *FrameError.
func ParseMethod(payload []byte) (Method, error) {
	id, ok := PeekMethod(payload)
	if !ok {
		return nil, Frame{Type: FrameMethod, Payload: payload}.malformed("unknown_frame")
	}
	kind, ok := methods[id]
	if !ok {
		return nil, &FrameError{Code: NotImplemented, Method: id, Text: fmt.Sprintf("no method has the id %d of class %d", id.Method(), id.Class())}
	}
	m := kind.empty()
	c := codec{buf: payload[methodIDSize:]}
	c.arguments(m)
	if err := c.endOfMethod(id, payload); err != nil {
		return nil, err
	}
	return m, nil
}

// arguments reads or writes the arguments of a method.
func (c *codec) arguments(m Method) {
	switch m.(type) {
	case *ConnectionStart:
		c.longText = true
	case *BasicPublish, *BasicReturn, *BasicDeliver, *BasicGetOK:
		c.anyBytes = true
	}
	fields := reflect.ValueOf(m).Elem()
	var bits [8]*bool
	n := 0
	for i := range fields.NumField() {
		field := fields.Field(i)
		if !field.CanSet() { // reserved
			field = reflect.New(field.Type()).Elem()
		}
		pointer := field.Addr().Interface()
		if bit, ok := pointer.(*bool); ok {
			bits[n] = bit
			n++
			continue
		}
		if n > 0 {
			c.bits(bits[:n]...)
			n = 0
		}
		c.value(pointer)
	}
	if n > 0 {
		c.bits(bits[:n]...)
	}
}

// PeekMethod returns which method a payload holds, and false if it is too short for any.
func PeekMethod(payload []byte) (MethodID, bool) {
	if len(payload) < methodIDSize {
		return 0, false
	}
	return MethodID(binary.BigEndian.Uint32(payload)), true
}

// AppendMethod appends a whole method frame. It adds nothing when Check returns an error.
func AppendMethod(dst []byte, channel uint16, m Method) []byte {
	c := openMethod(dst, channel, m.ID())
	c.arguments(m)
	return c.closeMethod(dst)
}

// Check returns why a method cannot be written: a short string has more than 255 bytes, or
// Table.Check returns an error.
func Check(m Method) error {
	c := codec{writing: true}
	c.arguments(m)
	return c.writeError(m.ID().String())
}

// openMethod begins a method frame that closeMethod ends.
func openMethod(dst []byte, channel uint16, id MethodID) codec {
	return codec{writing: true, buf: binary.BigEndian.AppendUint32(openFrame(dst, FrameMethod, channel), uint32(id))}
}

// closeMethod returns dst with the frame that openMethod began, or dst alone after an error.
func (c *codec) closeMethod(dst []byte) []byte {
	if c.err != nil {
		return dst
	}
	return closeFrame(c.buf, len(dst))
}

// endOfMethod returns the error of reading the arguments of a method.
func (c *codec) endOfMethod(id MethodID, payload []byte) error {
	if len(c.buf) > 0 || c.truncated {
		c.err = &FrameError{Code: FrameFault, Text: "cannot decode " + octetList(payload[methodIDSize:])}
	}
	if c.err == nil {
		return nil
	}
	if !c.hideMethod {
		c.err.Method = id
	}
	return c.err
}

// MethodID is a class and a method of it.
type MethodID uint32

// Class returns the number of the class.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method returns the number of the method within its class.
func (id MethodID) Method() uint16 { return uint16(id) }

// String returns the name in the specification, such as basic.publish.
func (id MethodID) String() string {
	if kind, ok := methods[id]; ok {
		return kind.name
	}
	return fmt.Sprintf("method %d of class %d", id.Method(), id.Class())
}

// The methods of AMQP 0-9-1 and of RabbitMQ's extensions.
const (
	IDConnectionStart          MethodID = 10<<16 | 10
	IDConnectionStartOK        MethodID = 10<<16 | 11
	IDConnectionSecure         MethodID = 10<<16 | 20
	IDConnectionSecureOK       MethodID = 10<<16 | 21
	IDConnectionTune           MethodID = 10<<16 | 30
	IDConnectionTuneOK         MethodID = 10<<16 | 31
	IDConnectionOpen           MethodID = 10<<16 | 40
	IDConnectionOpenOK         MethodID = 10<<16 | 41
	IDConnectionClose          MethodID = 10<<16 | 50
	IDConnectionCloseOK        MethodID = 10<<16 | 51
	IDConnectionBlocked        MethodID = 10<<16 | 60
	IDConnectionUnblocked      MethodID = 10<<16 | 61
	IDConnectionUpdateSecret   MethodID = 10<<16 | 70
	IDConnectionUpdateSecretOK MethodID = 10<<16 | 71

	IDChannelOpen    MethodID = 20<<16 | 10
	IDChannelOpenOK  MethodID = 20<<16 | 11
	IDChannelFlow    MethodID = 20<<16 | 20
	IDChannelFlowOK  MethodID = 20<<16 | 21
	IDChannelClose   MethodID = 20<<16 | 40
	IDChannelCloseOK MethodID = 20<<16 | 41

	IDAccessRequest   MethodID = 30<<16 | 10
	IDAccessRequestOK MethodID = 30<<16 | 11

	IDExchangeDeclare   MethodID = 40<<16 | 10
	IDExchangeDeclareOK MethodID = 40<<16 | 11
	IDExchangeDelete    MethodID = 40<<16 | 20
	IDExchangeDeleteOK  MethodID = 40<<16 | 21
	IDExchangeBind      MethodID = 40<<16 | 30
	IDExchangeBindOK    MethodID = 40<<16 | 31
	IDExchangeUnbind    MethodID = 40<<16 | 40
	IDExchangeUnbindOK  MethodID = 40<<16 | 51

	IDQueueDeclare   MethodID = 50<<16 | 10
	IDQueueDeclareOK MethodID = 50<<16 | 11
	IDQueueBind      MethodID = 50<<16 | 20
	IDQueueBindOK    MethodID = 50<<16 | 21
	IDQueuePurge     MethodID = 50<<16 | 30
	IDQueuePurgeOK   MethodID = 50<<16 | 31
	IDQueueDelete    MethodID = 50<<16 | 40
	IDQueueDeleteOK  MethodID = 50<<16 | 41
	IDQueueUnbind    MethodID = 50<<16 | 50
	IDQueueUnbindOK  MethodID = 50<<16 | 51

	IDBasicQos          MethodID = 60<<16 | 10
	IDBasicQosOK        MethodID = 60<<16 | 11
	IDBasicConsume      MethodID = 60<<16 | 20
	IDBasicConsumeOK    MethodID = 60<<16 | 21
	IDBasicCancel       MethodID = 60<<16 | 30
	IDBasicCancelOK     MethodID = 60<<16 | 31
	IDBasicPublish      MethodID = 60<<16 | 40
	IDBasicReturn       MethodID = 60<<16 | 50
	IDBasicDeliver      MethodID = 60<<16 | 60
	IDBasicGet          MethodID = 60<<16 | 70
	IDBasicGetOK        MethodID = 60<<16 | 71
	IDBasicGetEmpty     MethodID = 60<<16 | 72
	IDBasicAck          MethodID = 60<<16 | 80
	IDBasicReject       MethodID = 60<<16 | 90
	IDBasicRecoverAsync MethodID = 60<<16 | 100
	IDBasicRecover      MethodID = 60<<16 | 110
	IDBasicRecoverOK    MethodID = 60<<16 | 111
	IDBasicNack         MethodID = 60<<16 | 120

	IDConfirmSelect   MethodID = 85<<16 | 10
	IDConfirmSelectOK MethodID = 85<<16 | 11

	IDTxSelect     MethodID = 90<<16 | 10
	IDTxSelectOK   MethodID = 90<<16 | 11
	IDTxCommit     MethodID = 90<<16 | 20
	IDTxCommitOK   MethodID = 90<<16 | 21
	IDTxRollback   MethodID = 90<<16 | 30
	IDTxRollbackOK MethodID = 90<<16 | 31
)

// methods is never changed.
var methods = map[MethodID]struct {
	name  string
	empty func() Method
}{
	IDConnectionStart:          {"connection.start", empty[ConnectionStart]},
	IDConnectionStartOK:        {"connection.start-ok", empty[ConnectionStartOK]},
	IDConnectionSecure:         {"connection.secure", empty[ConnectionSecure]},
	IDConnectionSecureOK:       {"connection.secure-ok", empty[ConnectionSecureOK]},
	IDConnectionTune:           {"connection.tune", empty[ConnectionTune]},
	IDConnectionTuneOK:         {"connection.tune-ok", empty[ConnectionTuneOK]},
	IDConnectionOpen:           {"connection.open", empty[ConnectionOpen]},
	IDConnectionOpenOK:         {"connection.open-ok", empty[ConnectionOpenOK]},
	IDConnectionClose:          {"connection.close", empty[ConnectionClose]},
	IDConnectionCloseOK:        {"connection.close-ok", empty[ConnectionCloseOK]},
	IDConnectionBlocked:        {"connection.blocked", empty[ConnectionBlocked]},
	IDConnectionUnblocked:      {"connection.unblocked", empty[ConnectionUnblocked]},
	IDConnectionUpdateSecret:   {"connection.update-secret", empty[ConnectionUpdateSecret]},
	IDConnectionUpdateSecretOK: {"connection.update-secret-ok", empty[ConnectionUpdateSecretOK]},

	IDChannelOpen:    {"channel.open", empty[ChannelOpen]},
	IDChannelOpenOK:  {"channel.open-ok", empty[ChannelOpenOK]},
	IDChannelFlow:    {"channel.flow", empty[ChannelFlow]},
	IDChannelFlowOK:  {"channel.flow-ok", empty[ChannelFlowOK]},
	IDChannelClose:   {"channel.close", empty[ChannelClose]},
	IDChannelCloseOK: {"channel.close-ok", empty[ChannelCloseOK]},

	IDAccessRequest:   {"access.request", empty[AccessRequest]},
	IDAccessRequestOK: {"access.request-ok", empty[AccessRequestOK]},

	IDExchangeDeclare:   {"exchange.declare", empty[ExchangeDeclare]},
	IDExchangeDeclareOK: {"exchange.declare-ok", empty[ExchangeDeclareOK]},
	IDExchangeDelete:    {"exchange.delete", empty[ExchangeDelete]},
	IDExchangeDeleteOK:  {"exchange.delete-ok", empty[ExchangeDeleteOK]},
	IDExchangeBind:      {"exchange.bind", empty[ExchangeBind]},
	IDExchangeBindOK:    {"exchange.bind-ok", empty[ExchangeBindOK]},
	IDExchangeUnbind:    {"exchange.unbind", empty[ExchangeUnbind]},
	IDExchangeUnbindOK:  {"exchange.unbind-ok", empty[ExchangeUnbindOK]},

	IDQueueDeclare:   {"queue.declare", empty[QueueDeclare]},
	IDQueueDeclareOK: {"queue.declare-ok", empty[QueueDeclareOK]},
	IDQueueBind:      {"queue.bind", empty[QueueBind]},
	IDQueueBindOK:    {"queue.bind-ok", empty[QueueBindOK]},
	IDQueuePurge:     {"queue.purge", empty[QueuePurge]},
	IDQueuePurgeOK:   {"queue.purge-ok", empty[QueuePurgeOK]},
	IDQueueDelete:    {"queue.delete", empty[QueueDelete]},
	IDQueueDeleteOK:  {"queue.delete-ok", empty[QueueDeleteOK]},
	IDQueueUnbind:    {"queue.unbind", empty[QueueUnbind]},
	IDQueueUnbindOK:  {"queue.unbind-ok", empty[QueueUnbindOK]},

	IDBasicQos:          {"basic.qos", empty[BasicQos]},
	IDBasicQosOK:        {"basic.qos-ok", empty[BasicQosOK]},
	IDBasicConsume:      {"basic.consume", empty[BasicConsume]},
	IDBasicConsumeOK:    {"basic.consume-ok", empty[BasicConsumeOK]},
	IDBasicCancel:       {"basic.cancel", empty[BasicCancel]},
	IDBasicCancelOK:     {"basic.cancel-ok", empty[BasicCancelOK]},
	IDBasicPublish:      {"basic.publish", empty[BasicPublish]},
	IDBasicReturn:       {"basic.return", empty[BasicReturn]},
	IDBasicDeliver:      {"basic.deliver", empty[BasicDeliver]},
	IDBasicGet:          {"basic.get", empty[BasicGet]},
	IDBasicGetOK:        {"basic.get-ok", empty[BasicGetOK]},
	IDBasicGetEmpty:     {"basic.get-empty", empty[BasicGetEmpty]},
	IDBasicAck:          {"basic.ack", empty[BasicAck]},
	IDBasicReject:       {"basic.reject", empty[BasicReject]},
	IDBasicRecoverAsync: {"basic.recover-async", empty[BasicRecoverAsync]},
	IDBasicRecover:      {"basic.recover", empty[BasicRecover]},
	IDBasicRecoverOK:    {"basic.recover-ok", empty[BasicRecoverOK]},
	IDBasicNack:         {"basic.nack", empty[BasicNack]},

	IDConfirmSelect:   {"confirm.select", empty[ConfirmSelect]},
	IDConfirmSelectOK: {"confirm.select-ok", empty[ConfirmSelectOK]},

	IDTxSelect:     {"tx.select", empty[TxSelect]},
	IDTxSelectOK:   {"tx.select-ok", empty[TxSelectOK]},
	IDTxCommit:     {"tx.commit", empty[TxCommit]},
	IDTxCommitOK:   {"tx.commit-ok", empty[TxCommitOK]},
	IDTxRollback:   {"tx.rollback", empty[TxRollback]},
	IDTxRollbackOK: {"tx.rollback-ok", empty[TxRollbackOK]},
}

func empty[T any, M interface {
	*T
	Method
}]() Method {
	return M(new(T))
}
