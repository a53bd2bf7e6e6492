package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const (
	equivalencePage = "Queues: Property Equivalence"
	argumentsPage   = "Queues: Optional Arguments"
	comparisonPage  = "Quorum Queues: Feature Comparison"
)

func argumentCases() []Case {
	cases := []Case{
		{"RedeclareSame", equivalencePage, redeclareQueueSame},
		{"RedeclareDurable", equivalencePage, redeclaresQueue(queueSpec{transient: true}, "inequivalent arg 'durable' for queue 'q' in vhost '{vhost}': received 'false' but current is 'true'")},
		{"RedeclareAutoDelete", equivalencePage, redeclaresQueue(queueSpec{autoDelete: true}, "inequivalent arg 'auto_delete' for queue 'q' in vhost '{vhost}': received 'true' but current is 'false'")},
		{"RedeclareExclusive", exclusivePage, redeclareExclusive},
		{"RedeclareArgumentAndDurable", equivalencePage, redeclareArgumentAndDurable},
		{"RedeclareIntegerTypes", equivalencePage, redeclareIntegerTypes},
		{"RedeclareUnknownArguments", equivalencePage, redeclareUnknownArguments},
		{"RedeclareClassicType", equivalencePage, redeclareClassicType},
		{"UnknownArgument", argumentsPage, declareUnknownArgument},
		{"DeadLetterExchangeWrongType", "Dead Letter Exchanges", declareRefused(queueSpec{args: amqp091.Table{"x-dead-letter-exchange": int32(1)}},
			"invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '{vhost}'")},
		{"QuorumTransient", comparisonPage, quorumNotDurable},
		{"QuorumExclusive", comparisonPage, declareRefused(queueSpec{exclusive: true, args: quorum(nil)}, "invalid property 'exclusive-owner' for queue 'q' in vhost '{vhost}'")},
		{"QuorumAutoDelete", comparisonPage, declareRefused(queueSpec{autoDelete: true, args: quorum(nil)}, "invalid property 'auto-delete' for queue 'q' in vhost '{vhost}'")},
		{"QuorumServerNamed", comparisonPage, quorumServerNamed},
		{"Transient", "Deprecated Features: transient_nonexcl_queues", transientQueue},
		{"QueueModeUnknown", "Lazy Queues", queueModeUnknown},
		{"MasterLocator", "Deprecated Features: queue_master_locator", masterLocator},
		{"MasterLocatorUnknown", "Deprecated Features: queue_master_locator", masterLocatorUnknown},
		{"MasterLocatorOfExistingQueue", equivalencePage, masterLocatorAgain},
		{"MasterLocatorOfQuorumQueue", comparisonPage, declareRefused(queueSpec{args: quorum(amqp091.Table{"x-queue-master-locator": "random"})},
			"invalid arg 'x-queue-master-locator' for queue 'q' in vhost '{vhost}' of queue type rabbit_quorum_queue")},
		{"QueueVersion", "Classic Queues: Version 2", queueVersion},
		{"RefusedQueueIsNotThere", argumentsPage, refusedQueueIsNotThere},
	}
	cases = append(cases, differingArguments()...)
	cases = append(cases, invalidArguments()...)
	return append(cases, foreignArguments()...)
}

// queueSpec is how a queue is declared; its zero value is an ordinary durable one.
type queueSpec struct {
	transient, autoDelete, exclusive bool
	args                             amqp091.Table
}

func (s queueSpec) declare(ch *Channel, name string) error {
	_, err := ch.QueueDeclare(name, !s.transient, s.autoDelete, s.exclusive, false, s.args)
	return err
}

func declareRefused(spec queueSpec, text string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		b.Refused(spec.declare(b.Channel(), "q"), 406, "PRECONDITION_FAILED - "+text)
	}
}

func redeclaresQueue(again queueSpec, text string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel()
		ch.Queue("q", nil)
		b.Refused(again.declare(ch, "q"), 406, "PRECONDITION_FAILED - "+text)
	}
}

func redeclareQueueSame(_ *testing.T, b *Bench) {
	ch := b.Channel()
	spec := queueSpec{autoDelete: true, args: amqp091.Table{"x-max-length": int32(5), "x-overflow": "reject-publish"}}
	b.Must(spec.declare(ch, "q"))
	b.Must(spec.declare(ch, "q"))
}

func redeclareExclusive(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("mine", nil)
	b.Refused(queueSpec{exclusive: true}.declare(ch, "mine"), 405, locked)
}

// A difference in arguments is reported before others.
func redeclareArgumentAndDurable(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(queueSpec{exclusive: true, transient: true}.declare(ch, "q"))
	err := queueSpec{exclusive: true, args: amqp091.Table{"x-max-priority": int32(1)}}.declare(ch, "q")
	b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'q' in vhost '{vhost}': "+
		"received the value '1' of type 'signedint' but current is none")
}

func redeclareIntegerTypes(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-message-ttl": int32(60000)})
	ch.Queue("q", amqp091.Table{"x-message-ttl": int64(60000)})
}

func redeclareUnknownArguments(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-unknown": "one"})
	ch.Queue("q", amqp091.Table{"x-unknown": "two"})
	ch.Queue("q", nil)
}

func redeclareClassicType(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Queue("q", amqp091.Table{"x-queue-type": "classic"})
	err := queueSpec{args: quorum(nil)}.declare(ch, "q")
	b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '{vhost}': "+
		either(b, release40, "received 'quorum' but current is 'classic'", "received the value 'quorum' of type 'longstr' but current is none"))
}

func declareUnknownArgument(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-unknown": "value", "other": int32(1), "nested": amqp091.Table{"a": true}})
	ch.Send("", "q", "through")
	ch.WantBodies("q", "through")
}

// A queue that is neither durable nor exclusive is refused from 4.3 on, and closes the connection.
func transientQueue(_ *testing.T, b *Bench) {
	conn := b.Connect()
	err := queueSpec{transient: true}.declare(conn.Channel(), "q")
	if !b.Since(release43) {
		b.Must(err)
		b.QueueExists("q")
		return
	}
	b.Refused(err, 541, transientRefused)
	conn.WantClosed(541, transientRefused)
	b.QueueGone("q")
}

func quorumNotDurable(_ *testing.T, b *Bench) {
	err := queueSpec{transient: true, args: quorum(nil)}.declare(b.Channel(), "q")
	if b.Since(release43) {
		b.Refused(err, 541, transientRefused)
		return
	}
	b.Refused(err, 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'q' in vhost '{vhost}'")
}

// From 4.3 on a classic queue does not look at its mode.
func queueModeUnknown(_ *testing.T, b *Bench) {
	err := queueSpec{args: amqp091.Table{"x-queue-mode": "eager"}}.declare(b.Channel(), "q")
	if b.Since(release43) {
		b.Must(err)
		return
	}
	b.Refused(err, 406, `PRECONDITION_FAILED - invalid arg 'x-queue-mode' for queue 'q' in vhost '{vhost}': "unsupported queue mode 'eager'"`)
}

// Version 1 of classic queues is gone in 4.3.
func queueVersion(_ *testing.T, b *Bench) {
	conn := b.Connect()
	conn.Channel().Queue("two", amqp091.Table{"x-queue-version": int32(2)})
	err := queueSpec{args: amqp091.Table{"x-queue-version": int32(1)}}.declare(conn.Channel(), "q")
	if !b.Since(release43) {
		b.Must(err)
		return
	}
	b.Refused(err, 406, "PRECONDITION_FAILED - invalid arg 'x-queue-version' for queue 'q' in vhost '{vhost}': …")
}

// locatorRefused is the beginning of the text by which 4.3 refuses a queue with x-queue-master-locator.
const locatorRefused = "INTERNAL_ERROR - Feature `queue_master_locator` is deprecated.\n…"

func declareWithLocator(b *Bench, locator any) (*Conn, error) {
	conn := b.Connect()
	return conn, queueSpec{args: amqp091.Table{"x-queue-master-locator": locator}}.declare(conn.Channel(), "q")
}

// 4.3 refuses the argument, whatever its value is, and closes the connection.
func masterLocator(_ *testing.T, b *Bench) {
	for _, locator := range []string{"min-masters", "client-local", "random"} {
		conn, err := declareWithLocator(b, locator)
		if !b.Since(release43) {
			b.Must(err)
			conn.Channel().QueueDelete("q", false, false, false)
			continue
		}
		b.Refused(err, 541, locatorRefused)
		conn.WantClosed(541, locatorRefused)
		b.QueueGone("q")
	}
}

// Before 4.0 the broker fails at a value that it does not know; 4.0 does not look at it.
func masterLocatorUnknown(_ *testing.T, b *Bench) {
	for _, locator := range []any{"balanced", "", int32(1)} {
		conn, err := declareWithLocator(b, locator)
		if b.Since(release40) && !b.Since(release43) {
			b.Must(err)
			conn.Channel().QueueDelete("q", false, false, false)
			continue
		}
		text := either(b, release43, locatorRefused, "INTERNAL_ERROR")
		b.Refused(err, 541, text)
		conn.WantClosed(541, text)
		b.QueueGone("q")
	}
}

func masterLocatorAgain(_ *testing.T, b *Bench) {
	b.Channel().Queue("q", nil)
	_, err := declareWithLocator(b, "random")
	b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-master-locator' for queue 'q' in vhost '{vhost}': "+
		"received the value 'random' of type 'longstr' but current is none")
}

func quorumServerNamed(_ *testing.T, b *Bench) {
	err := queueSpec{args: quorum(nil)}.declare(b.Channel(), "")
	b.Refused(err, 406, "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue")
}

func refusedQueueIsNotThere(_ *testing.T, b *Bench) {
	conn := b.Connect()
	err := queueSpec{args: amqp091.Table{"x-max-length": int32(-1)}}.declare(conn.Channel(), "q")
	b.Refused(err, 406, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q' in vhost '{vhost}': {value_negative,-1}")
	_, err = conn.Channel().QueueDeclarePassive("q", true, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue 'q' in vhost '{vhost}'")
}

// differingArguments redeclare a queue with another value of an argument, without it, and with it.
func differingArguments() []Case {
	var cases []Case
	for _, arg := range []struct {
		name             string
		first, second    any
		before, after    string // as the broker shows the values
		firstWithItsType string
	}{
		{"x-message-ttl", int32(1000), int32(2000), "1000", "2000", "the value '1000' of type 'signedint'"},
		{"x-expires", int64(100000), int64(200000), "100000", "200000", "the value '100000' of type 'long'"},
		{"x-max-length", int16(10), int16(20), "10", "20", "the value '10' of type 'short'"},
		{"x-max-length-bytes", int32(10), int32(20), "10", "20", "the value '10' of type 'signedint'"},
		{"x-max-priority", uint8(5), uint8(6), "5", "6", "the value '5' of type 'unsignedbyte'"},
		{"x-overflow", "drop-head", "reject-publish", "drop-head", "reject-publish", "the value 'drop-head' of type 'longstr'"},
		{"x-dead-letter-exchange", "amq.fanout", "amq.topic", "amq.fanout", "amq.topic", "the value 'amq.fanout' of type 'longstr'"},
		{"x-single-active-consumer", true, false, "true", "false", "the value 'true' of type 'bool'"},
		{"x-queue-mode", "lazy", "default", "lazy", "default", "the value 'lazy' of type 'longstr'"},
	} {
		prefix := "PRECONDITION_FAILED - inequivalent arg '" + arg.name + "' for queue 'q' in vhost '{vhost}': received "
		cases = append(cases, Case{"RedeclareOther-" + arg.name, equivalencePage, func(_ *testing.T, b *Bench) {
			conn := b.Connect()
			conn.Channel().Queue("q", amqp091.Table{arg.name: arg.first})
			err := queueSpec{args: amqp091.Table{arg.name: arg.second}}.declare(conn.Channel(), "q")
			b.Refused(err, 406, prefix+"'"+arg.after+"' but current is '"+arg.before+"'")
			err = queueSpec{}.declare(conn.Channel(), "q")
			b.Refused(err, 406, prefix+"none but current is "+arg.firstWithItsType)
			conn.Channel().Queue("without", nil)
			err = queueSpec{args: amqp091.Table{arg.name: arg.first}}.declare(conn.Channel(), "without")
			b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg '"+arg.name+"' for queue 'without' in vhost '{vhost}': received "+
				arg.firstWithItsType+" but current is none")
		}})
	}
	return cases
}

// invalidArguments have values that the broker refuses.
func invalidArguments() []Case {
	const wantInteger = `"expected integer, got longstr"`
	var cases []Case
	for _, bad := range []struct {
		name  string
		arg   string
		value any
		why   string
	}{
		{"MessageTTLText", "x-message-ttl", "1000", wantInteger},
		{"MessageTTLNegative", "x-message-ttl", int32(-1), "{value_negative,-1}"},
		{"MessageTTLTooLarge", "x-message-ttl", int64(315_360_000_001), "{value_too_large,315360000001}"},
		{"ExpiresText", "x-expires", "1000", wantInteger},
		{"ExpiresZero", "x-expires", int32(0), "{value_zero,0}"},
		{"ExpiresNegative", "x-expires", int32(-1), "{value_negative,-1}"},
		{"MaxLengthText", "x-max-length", "10", wantInteger},
		{"MaxLengthNegative", "x-max-length", int32(-1), "{value_negative,-1}"},
		{"MaxLengthBytesNegative", "x-max-length-bytes", int32(-1), "{value_negative,-1}"},
		{"MaxLengthBytesBool", "x-max-length-bytes", true, `"expected integer, got bool"`},
		{"MaxPriorityText", "x-max-priority", "10", wantInteger},
		{"MaxPriorityNegative", "x-max-priority", int32(-1), "{value_negative,-1}"},
		{"MaxPriorityTooLarge", "x-max-priority", int32(256), "{max_value_exceeded,256}"},
		{"OverflowUnknown", "x-overflow", "spill", "invalid_overflow"},
		{"OverflowNumber", "x-overflow", int32(1), "{unacceptable_type,signedint}"},
		{"DeadLetterKeyAlone", "x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"},
		{"DeadLetterKeyNumber", "x-dead-letter-routing-key", int32(1), "{unacceptable_type,signedint}"},
		{"SingleActiveConsumerText", "x-single-active-consumer", "true", "{unacceptable_type,longstr}"},
		{"QueueTypeUnknown", "x-queue-type", "fancy", `"unsupported queue type 'fancy'"`},
		{"QueueTypeNumber", "x-queue-type", int32(1), "{unacceptable_type,signedint}"},
	} {
		cases = append(cases, Case{bad.name, argumentsPage, refusesArgument(amqp091.Table{bad.arg: bad.value}, bad.arg, ": "+bad.why)})
	}
	for _, bad := range []struct {
		name, arg string
		value     any
		why       string
	}{
		{"QuorumMessageTTLNegative", "x-message-ttl", int32(-1), "{value_negative,-1}"},
		{"QuorumStrategyUnknown", "x-dead-letter-strategy", "sometimes", "invalid_dlx_strategy"},
		{"QuorumGroupSizeZero", "x-quorum-initial-group-size", int32(0), "{value_zero,0}"},
	} {
		cases = append(cases, Case{bad.name, argumentsPage, refusesArgument(quorum(amqp091.Table{bad.arg: bad.value}), bad.arg, ": "+bad.why)})
	}
	return cases
}

func refusesArgument(args amqp091.Table, arg, why string) func(*testing.T, *Bench) {
	return declareRefused(queueSpec{args: args}, "invalid arg '"+arg+"' for queue 'q' in vhost '{vhost}'"+why)
}

// foreignArguments are known, but not for this type of queues.
func foreignArguments() []Case {
	var cases []Case
	for _, foreign := range []struct {
		name string
		args amqp091.Table
		arg  string
		kind string
	}{
		{"QuorumMaxPriority", quorum(amqp091.Table{"x-max-priority": int32(5)}), "x-max-priority", "rabbit_quorum_queue"},
		{"QuorumQueueMode", quorum(amqp091.Table{"x-queue-mode": "lazy"}), "x-queue-mode", "rabbit_quorum_queue"},
		{"ClassicDeliveryLimit", amqp091.Table{"x-delivery-limit": int32(5)}, "x-delivery-limit", "rabbit_classic_queue"},
		{"ClassicDeadLetterStrategy", amqp091.Table{"x-dead-letter-strategy": "at-least-once"}, "x-dead-letter-strategy", "rabbit_classic_queue"},
	} {
		cases = append(cases, Case{foreign.name, comparisonPage, refusesArgument(foreign.args, foreign.arg, " of queue type "+foreign.kind)})
	}
	return cases
}
