package wire

import (
	"encoding/binary"
	"fmt"
)

// methodIDSize is the size of a MethodID on the wire.
const methodIDSize = 4

// Method is a method with its arguments: a pointer to one of this package's structs. Arguments that
// AMQP reserves have no field.
type Method interface {
	ID() MethodID
	arguments(*codec)
}

// noArguments is embedded in methods without arguments.
type noArguments struct{}

func (noArguments) arguments(*codec) {}

// ParseMethod reads the payload of a method frame. Its error is a *FrameError.
func ParseMethod(payload []byte) (Method, error) {
	id, ok := PeekMethod(payload)
	if !ok {
		return nil, Frame{Type: FrameMethod, Payload: payload}.fault("unknown_frame")
	}
	kind, ok := methods[id]
	if !ok {
		return nil, &FrameError{Code: NotImplemented, Method: id, Text: fmt.Sprintf("no method has the id %d of class %d", id.Method(), id.Class())}
	}
	m := kind.blank()
	c := codec{buf: payload[methodIDSize:]}
	m.arguments(&c)
	if err := c.readArguments(id, payload); err != nil {
		return nil, err
	}
	return m, nil
}

// PeekMethod returns which method a payload holds.
func PeekMethod(payload []byte) (MethodID, bool) {
	if len(payload) < methodIDSize {
		return 0, false
	}
	return MethodID(binary.BigEndian.Uint32(payload)), true
}

// AppendMethod appends a whole method frame. It adds nothing when Check finds a fault.
func AppendMethod(dst []byte, channel uint16, m Method) []byte {
	c := codec{writing: true, buf: openMethod(dst, channel, m.ID())}
	m.arguments(&c)
	if c.fault != nil {
		return dst
	}
	return closeFrame(c.buf, len(dst))
}

// Check returns why a method cannot be written: a short string of more than 255 bytes, or a fault in a table.
func Check(m Method) error {
	c := codec{writing: true}
	m.arguments(&c)
	if c.fault != nil {
		return fmt.Errorf("write %s: %s", m.ID(), c.fault.Text)
	}
	return nil
}

// openMethod begins a method frame that closeFrame ends.
func openMethod(dst []byte, channel uint16, id MethodID) []byte {
	return binary.BigEndian.AppendUint32(openFrame(dst, FrameMethod, channel), uint32(id))
}

// readArguments ends the reading of a method's arguments.
func (c *codec) readArguments(id MethodID, payload []byte) error {
	if len(c.buf) > 0 || c.cut {
		c.fault = &FrameError{Code: FrameFault, Text: "cannot decode " + octetList(payload[methodIDSize:])}
	}
	if c.fault == nil {
		return nil
	}
	if !c.anonymous {
		c.fault.Method = id
	}
	return c.fault
}

// MethodID is a class and a method of it.
type MethodID uint32

// Class is the class alone.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method is the method within its class.
func (id MethodID) Method() uint16 { return uint16(id) }

// String is the name in the specification, such as basic.publish.
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
	blank func() Method
}{
	IDConnectionStart:          {"connection.start", blank[ConnectionStart]},
	IDConnectionStartOK:        {"connection.start-ok", blank[ConnectionStartOK]},
	IDConnectionSecure:         {"connection.secure", blank[ConnectionSecure]},
	IDConnectionSecureOK:       {"connection.secure-ok", blank[ConnectionSecureOK]},
	IDConnectionTune:           {"connection.tune", blank[ConnectionTune]},
	IDConnectionTuneOK:         {"connection.tune-ok", blank[ConnectionTuneOK]},
	IDConnectionOpen:           {"connection.open", blank[ConnectionOpen]},
	IDConnectionOpenOK:         {"connection.open-ok", blank[ConnectionOpenOK]},
	IDConnectionClose:          {"connection.close", blank[ConnectionClose]},
	IDConnectionCloseOK:        {"connection.close-ok", blank[ConnectionCloseOK]},
	IDConnectionBlocked:        {"connection.blocked", blank[ConnectionBlocked]},
	IDConnectionUnblocked:      {"connection.unblocked", blank[ConnectionUnblocked]},
	IDConnectionUpdateSecret:   {"connection.update-secret", blank[ConnectionUpdateSecret]},
	IDConnectionUpdateSecretOK: {"connection.update-secret-ok", blank[ConnectionUpdateSecretOK]},

	IDChannelOpen:    {"channel.open", blank[ChannelOpen]},
	IDChannelOpenOK:  {"channel.open-ok", blank[ChannelOpenOK]},
	IDChannelFlow:    {"channel.flow", blank[ChannelFlow]},
	IDChannelFlowOK:  {"channel.flow-ok", blank[ChannelFlowOK]},
	IDChannelClose:   {"channel.close", blank[ChannelClose]},
	IDChannelCloseOK: {"channel.close-ok", blank[ChannelCloseOK]},

	IDAccessRequest:   {"access.request", blank[AccessRequest]},
	IDAccessRequestOK: {"access.request-ok", blank[AccessRequestOK]},

	IDExchangeDeclare:   {"exchange.declare", blank[ExchangeDeclare]},
	IDExchangeDeclareOK: {"exchange.declare-ok", blank[ExchangeDeclareOK]},
	IDExchangeDelete:    {"exchange.delete", blank[ExchangeDelete]},
	IDExchangeDeleteOK:  {"exchange.delete-ok", blank[ExchangeDeleteOK]},
	IDExchangeBind:      {"exchange.bind", blank[ExchangeBind]},
	IDExchangeBindOK:    {"exchange.bind-ok", blank[ExchangeBindOK]},
	IDExchangeUnbind:    {"exchange.unbind", blank[ExchangeUnbind]},
	IDExchangeUnbindOK:  {"exchange.unbind-ok", blank[ExchangeUnbindOK]},

	IDQueueDeclare:   {"queue.declare", blank[QueueDeclare]},
	IDQueueDeclareOK: {"queue.declare-ok", blank[QueueDeclareOK]},
	IDQueueBind:      {"queue.bind", blank[QueueBind]},
	IDQueueBindOK:    {"queue.bind-ok", blank[QueueBindOK]},
	IDQueuePurge:     {"queue.purge", blank[QueuePurge]},
	IDQueuePurgeOK:   {"queue.purge-ok", blank[QueuePurgeOK]},
	IDQueueDelete:    {"queue.delete", blank[QueueDelete]},
	IDQueueDeleteOK:  {"queue.delete-ok", blank[QueueDeleteOK]},
	IDQueueUnbind:    {"queue.unbind", blank[QueueUnbind]},
	IDQueueUnbindOK:  {"queue.unbind-ok", blank[QueueUnbindOK]},

	IDBasicQos:          {"basic.qos", blank[BasicQos]},
	IDBasicQosOK:        {"basic.qos-ok", blank[BasicQosOK]},
	IDBasicConsume:      {"basic.consume", blank[BasicConsume]},
	IDBasicConsumeOK:    {"basic.consume-ok", blank[BasicConsumeOK]},
	IDBasicCancel:       {"basic.cancel", blank[BasicCancel]},
	IDBasicCancelOK:     {"basic.cancel-ok", blank[BasicCancelOK]},
	IDBasicPublish:      {"basic.publish", blank[BasicPublish]},
	IDBasicReturn:       {"basic.return", blank[BasicReturn]},
	IDBasicDeliver:      {"basic.deliver", blank[BasicDeliver]},
	IDBasicGet:          {"basic.get", blank[BasicGet]},
	IDBasicGetOK:        {"basic.get-ok", blank[BasicGetOK]},
	IDBasicGetEmpty:     {"basic.get-empty", blank[BasicGetEmpty]},
	IDBasicAck:          {"basic.ack", blank[BasicAck]},
	IDBasicReject:       {"basic.reject", blank[BasicReject]},
	IDBasicRecoverAsync: {"basic.recover-async", blank[BasicRecoverAsync]},
	IDBasicRecover:      {"basic.recover", blank[BasicRecover]},
	IDBasicRecoverOK:    {"basic.recover-ok", blank[BasicRecoverOK]},
	IDBasicNack:         {"basic.nack", blank[BasicNack]},

	IDConfirmSelect:   {"confirm.select", blank[ConfirmSelect]},
	IDConfirmSelectOK: {"confirm.select-ok", blank[ConfirmSelectOK]},

	IDTxSelect:     {"tx.select", blank[TxSelect]},
	IDTxSelectOK:   {"tx.select-ok", blank[TxSelectOK]},
	IDTxCommit:     {"tx.commit", blank[TxCommit]},
	IDTxCommitOK:   {"tx.commit-ok", blank[TxCommitOK]},
	IDTxRollback:   {"tx.rollback", blank[TxRollback]},
	IDTxRollbackOK: {"tx.rollback-ok", blank[TxRollbackOK]},
}

func blank[T any, M interface {
	*T
	Method
}]() Method {
	return M(new(T))
}
