package rabbit

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The ways in which publishing fails. A publish error is one of these, found with errors.Is.
var (
	// ErrUnroutable: the broker took the message and found no queue for it, or no such exchange.
	// It is stored nowhere.
	ErrUnroutable = errors.New("unroutable")
	// ErrRefused: the broker sent a nack: a full queue, or a queue without a leader. With several queues
	// bound, some may have stored it.
	ErrRefused = errors.New("refused by the broker")
	// ErrNacked is an ErrRefused that may pass.
	ErrNacked = errors.New("negative confirm; a queue is full (reject-publish) or has lost its leader")
	// ErrUnknown: the message was sent and the answer never came. It may or may not be stored.
	ErrUnknown = errors.New("outcome unknown")
	// ErrBlocked: the broker is blocked by an alarm, or does not confirm earlier messages; the message was
	// not sent.
	ErrBlocked = errors.New("broker is blocked")
	// ErrDisconnected: there is no connection to a broker, and the message was not sent.
	ErrDisconnected = errors.New("not connected")
	// ErrTooLarge: the message does not fit the limits of the protocol, the broker or the settings.
	ErrTooLarge = errors.New("message too large")
	// ErrInvalid: the message has a property or header that AMQP cannot carry.
	ErrInvalid = errors.New("invalid message")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("client is closed")
)

// NoExchangeError is an ErrUnroutable: the exchange does not exist.
type NoExchangeError struct{ Exchange string }

func (e *NoExchangeError) Error() string {
	return fmt.Sprintf("there is no exchange %q; declare it first, for example with the exchanges of the client (exchanges in rehop.yaml)", e.Exchange)
}

// DeclareError is an object of a topology that the broker did not accept, and why.
type DeclareError struct {
	Object   string // exchange, queue, binding or consumer
	Name     string
	Code     int    // AMQP reply code: 403, 404, 405, 406, …
	Argument string // for 406: the argument that differs, if the broker named it
	Want     string // for 406: what was asked for
	Have     string // for 406: what the broker has
	Reason   string // the broker's text
	Hint     string // what to do
}

func (e *DeclareError) Error() string {
	s := fmt.Sprintf("declare %s %q: ", e.Object, e.Name)
	if e.Argument != "" {
		s += fmt.Sprintf("it already exists with %s = %s, not %s", e.Argument, e.Have, e.Want)
	} else {
		s += e.Reason
	}
	return fmt.Sprintf("%s (%d); %s", s, e.Code, e.Hint)
}

// Missing reports whether the object does not exist. RabbitMQ also answers with code 404 if a queue exists and cannot be used: its node is down, its
// process has crashed, or it does not answer in time.
func (e *DeclareError) Missing() bool {
	return e.Code == amqp.NotFound && strings.HasPrefix(e.Reason, "NOT_FOUND - no "+e.Object+" '")
}

// InExclusiveUse reports whether a consumer has the queue exclusively, so that there can be no other.
func (e *DeclareError) InExclusiveUse() bool {
	return e.Code == amqp.AccessRefused && strings.HasSuffix(e.Reason, " in exclusive use")
}

// Differs reports whether the broker refused an object because it has it with other arguments.
func Differs(err error) bool {
	d, is := errors.AsType[*DeclareError](err)
	return is && d.Code == amqp.PreconditionFailed
}

var inequivalent = regexp.MustCompile(`inequivalent arg '([^']*)' for .*: received (.*) but current is (.*)$`)

var brokerValue = regexp.MustCompile(`^(?:the value )?'(.*?)'(?: of type '[^']*')?$`)

// plainValue is the value in the broker's text: 'topic', the value '6000' of type 'long', none.
func plainValue(s string) string {
	if m := brokerValue.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return s
}

func declareError(object, name string, err error) error {
	if err == nil {
		return nil
	}
	e, is := errors.AsType[*amqp.Error](err)
	if is && e.Server && e.Code == amqp.InternalError && !isASCII(object+name) {
		// RabbitMQ 4 cuts the text of a refusal at 255 characters, and fails if these have more bytes than that.
		return &DeclareError{Object: object, Name: name, Code: e.Code, Reason: "the broker ended the connection without a reason, probably because this name is not ASCII",
			Hint: "create it first, declare it with the settings that exist, or use a name of ASCII characters; see the broker's log"}
	}
	// Only a channel exception is about this object; a connection can also be closed because the broker
	// restarts or an operator closes it.
	if !is || !e.Server || !e.Recover {
		return fmt.Errorf("declare %s %q: %w", object, name, err)
	}
	d := &DeclareError{Object: object, Name: name, Code: e.Code, Reason: e.Reason}
	switch e.Code {
	case amqp.PreconditionFailed:
		if m := inequivalent.FindStringSubmatch(e.Reason); m != nil {
			d.Argument, d.Want, d.Have = m[1], plainValue(m[2]), plainValue(m[3])
		}
		d.Hint = differsHint(d)
	case amqp.NotFound:
		switch {
		case d.Missing():
			d.Hint = "create it first, or correct the name"
		case strings.HasPrefix(object, "binding") && strings.HasPrefix(e.Reason, "NOT_FOUND - no "):
			d.Hint = "create the queue or exchange that the broker names, or correct the name"
		default:
			d.Hint = "it exists and cannot be used now: start the node that the broker names, or see its log"
		}
	case amqp.AccessRefused:
		if d.InExclusiveUse() {
			d.Hint = "stop the consumer that has it exclusively"
			break
		}
		d.Hint = "grant the user configure, write and read permission for it"
	case amqp.ResourceLocked:
		d.Hint = "another connection holds it exclusively: stop that one or use another name"
	default:
		d.Hint = "see the broker's log"
	}
	return d
}

// differsHint is what to do about a 406.
func differsHint(d *DeclareError) string {
	switch {
	case d.Argument == "": // the broker does not accept a value, whatever exists
		return "change the setting that the broker names"
	case strings.HasPrefix(d.Name, "rehop."):
		return "all programs of a virtual host share it and need the same Config.QueueType (queue-type in rehop.yaml)"
	case d.Object == "exchange":
		return "set ExistingExchange (existing-exchange: true in rehop.yaml) to use it unchanged, and do not list it in Config.Exchanges"
	case d.Object == "queue":
		return "set ExistingQueue (existing-queue: true in rehop.yaml) to use it unchanged, or run rehop topology migrate to change it"
	}
	return "change the setting to what exists, or use another name"
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

var (
	exchangeInReason = regexp.MustCompile(`exchange '([^']*)'`)
	sizeInReason     = regexp.MustCompile(`message size \d+ (?:is )?larger than (?:configured )?max size (\d+)`)
)

// culprit finds what a channel exception blames: an exchange by name, or messages above a size.
func culprit(e *amqp.Error) (exchange string, maxSize int) {
	if m := exchangeInReason.FindStringSubmatch(e.Reason); m != nil {
		exchange = m[1]
	}
	if m := sizeInReason.FindStringSubmatch(e.Reason); m != nil {
		maxSize, _ = strconv.Atoi(m[1])
	}
	return exchange, maxSize
}
