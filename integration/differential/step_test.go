package differential

import (
	"fmt"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// place is a channel of one of the connections that every session has.
type place struct{ connection, channel int }

func (p place) String() string { return fmt.Sprintf("c%d.%d", p.connection, p.channel) }

// step is one thing that a client does. Exactly one of its pointers is set.
type step struct {
	at      place
	method  *call
	publish *publish
	answer  *answer
	end     *end
}

// call is a method that is sent unchanged.
type call struct{ wire.Method }

// publish is a message.
type publish struct {
	wire.BasicPublish
	properties wire.Properties
	body       string
}

// answer is an ack, nack or reject of a delivery that is open when its turn comes.
type answer struct {
	verb              string
	pick              int // which of the open ones
	multiple, requeue bool
}

// end is how a client leaves a channel or a connection. It comes back at once.
type end struct{ what string }

// The ways to leave.
const (
	closeChannel    = "close channel"
	closeConnection = "close connection"
	dropConnection  = "drop connection"
)

func (s step) String() string {
	switch {
	case s.method != nil:
		return fmt.Sprintf("%s %s", s.at, describe(s.method.Method))
	case s.publish != nil:
		return fmt.Sprintf("%s %s %+v %q", s.at, describe(&s.publish.BasicPublish), s.publish.properties, s.publish.body)
	case s.answer != nil:
		return fmt.Sprintf("%s %s pick %d multiple %t requeue %t", s.at, s.answer.verb, s.answer.pick, s.answer.multiple, s.answer.requeue)
	}
	return fmt.Sprintf("%s %s", s.at, s.end.what)
}

func describe(m wire.Method) string {
	return m.ID().String() + " " + strings.TrimPrefix(fmt.Sprintf("%+v", m), "&")
}

// method is the answer to a delivery tag.
func (a *answer) method(tag uint64, multiple bool) wire.Method {
	switch a.verb {
	case "ack":
		return &wire.BasicAck{DeliveryTag: tag, Multiple: multiple}
	case "nack":
		return &wire.BasicNack{DeliveryTag: tag, Multiple: multiple, Requeue: a.requeue}
	}
	return &wire.BasicReject{DeliveryTag: tag, Requeue: a.requeue}
}
