package node

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// replyText is the reply text of an error, or "".
func replyText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func table(pairs ...any) (t wire.Table) {
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, wire.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

func TestCheckQueueArguments(t *testing.T) {
	const q = "queue 'q' in vhost '/'"
	quorum := func(pairs ...any) wire.Table { return append(table("x-queue-type", "quorum"), table(pairs...)...) }
	for _, c := range []struct {
		name string
		args wire.Table
		want string // what follows PRECONDITION_FAILED
	}{
		{"nothing", nil, ""},
		{"unknown arguments", table("x-mine", int32(1), "x-priority", "high"), ""},
		{"every integer type", table("x-message-ttl", int8(1), "x-expires", uint16(1), "x-max-length", uint32(1), "x-max-length-bytes", uint64(1)), ""},
		{"ttl of zero", table("x-message-ttl", int32(0)), ""},
		{"ttl of ten years", table("x-message-ttl", int64(315_360_000_000)), ""},
		{"ttl too large", table("x-message-ttl", int64(315_360_000_001)), "invalid arg 'x-message-ttl' for " + q + ": {value_too_large,315360000001}"},
		{"ttl negative", table("x-message-ttl", int32(-1)), "invalid arg 'x-message-ttl' for " + q + ": {value_negative,-1}"},
		{"ttl as text", table("x-message-ttl", "60"), "invalid arg 'x-message-ttl' for " + q + `: "expected integer, got longstr"`},
		{"ttl as float", table("x-message-ttl", 1.5), "invalid arg 'x-message-ttl' for " + q + `: "expected integer, got double"`},
		{"expires zero", table("x-expires", int32(0)), "invalid arg 'x-expires' for " + q + ": {value_zero,0}"},
		{"expires negative", table("x-expires", int32(-5)), "invalid arg 'x-expires' for " + q + ": {value_negative,-5}"},
		{"first in RabbitMQ's order", table("x-max-length", int32(-1), "x-expires", true), "invalid arg 'x-expires' for " + q + `: "expected integer, got bool"`},
		{"length negative", table("x-max-length", int32(-1)), "invalid arg 'x-max-length' for " + q + ": {value_negative,-1}"},
		{"bytes negative", table("x-max-length-bytes", int64(-1)), "invalid arg 'x-max-length-bytes' for " + q + ": {value_negative,-1}"},
		{"dlx not text", table("x-dead-letter-exchange", int32(1)), "invalid arg 'x-dead-letter-exchange' for " + q + ": {unacceptable_type,signedint}"},
		{"key without dlx", table("x-dead-letter-routing-key", "k"), "invalid arg 'x-dead-letter-routing-key' for " + q + ": routing_key_but_no_dlx_defined"},
		{"key not text", table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", true), "invalid arg 'x-dead-letter-routing-key' for " + q + ": {unacceptable_type,bool}"},
		{"key with dlx", table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "k"), ""},
		{"priority 255", table("x-max-priority", uint8(255)), ""},
		{"priority 256", table("x-max-priority", int32(256)), "invalid arg 'x-max-priority' for " + q + ": {max_value_exceeded,256}"},
		{"priority negative", table("x-max-priority", int8(-1)), "invalid arg 'x-max-priority' for " + q + ": {value_negative,-1}"},
		{"overflow unknown", table("x-overflow", "explode"), "invalid arg 'x-overflow' for " + q + ": invalid_overflow"},
		{"overflow not text", table("x-overflow", int32(1)), "invalid arg 'x-overflow' for " + q + ": {unacceptable_type,signedint}"},
		{"mode", table("x-queue-mode", "lazy"), ""},
		{"mode unknown", table("x-queue-mode", "eager"), "invalid arg 'x-queue-mode' for " + q + `: "unsupported queue mode 'eager'"`},
		{"version", table("x-queue-version", int32(2)), ""},
		{"version unknown", table("x-queue-version", int32(3)), "invalid arg 'x-queue-version' for " + q + `: "unsupported queue version '3'"`},
		{"single active not bool", table("x-single-active-consumer", "yes"), "invalid arg 'x-single-active-consumer' for " + q + ": {unacceptable_type,longstr}"},
		{"type unknown", table("x-queue-type", "ring"), "invalid arg 'x-queue-type' for " + q + `: "unsupported queue type 'ring'"`},
		{"type not text", table("x-queue-type", int32(1)), "invalid arg 'x-queue-type' for " + q + ": {unacceptable_type,signedint}"},
		{"stream", table("x-queue-type", "stream"), "invalid arg 'x-queue-type' for " + q + ": this broker has no streams; leave it out, or choose classic or quorum"},
		{"of quorum queues alone", table("x-delivery-limit", int32(1)), "invalid arg 'x-delivery-limit' for " + q + " of queue type rabbit_classic_queue"},
		{"of streams alone", table("x-max-age", "1h"), "invalid arg 'x-max-age' for " + q + " of queue type rabbit_classic_queue"},
		{"quorum", quorum("x-delivery-limit", int32(3), "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish"), ""},
		{"quorum with any limit", quorum("x-delivery-limit", "three"), ""},
		{"quorum with priorities", quorum("x-max-priority", int32(5)), "invalid arg 'x-max-priority' for " + q + " of queue type rabbit_quorum_queue"},
		{"quorum lazy", quorum("x-queue-mode", "lazy"), "invalid arg 'x-queue-mode' for " + q + " of queue type rabbit_quorum_queue"},
		{"quorum strategy unknown", quorum("x-dead-letter-strategy", "twice"), "invalid arg 'x-dead-letter-strategy' for " + q + ": invalid_dlx_strategy"},
		{"quorum group of none", quorum("x-quorum-initial-group-size", int32(0)), "invalid arg 'x-quorum-initial-group-size' for " + q + ": {value_zero,0}"},
		{"quorum leader unknown", quorum("x-queue-leader-locator", "here"), "invalid arg 'x-queue-leader-locator' for " + q + ": invalid_queue_locator_arg"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want != "" {
				want = "PRECONDITION_FAILED - " + want
			}
			if got := replyText(checkQueueArguments(RabbitMQ310, "/", QueueSpec{Name: "q", Durable: true, Arguments: c.args})); got != want {
				t.Errorf("declare with %v:\n got %q\nwant %q", c.args, got, want)
			}
		})
	}
}

func TestCheckQueueArgumentsProperties(t *testing.T) {
	const (
		classic = "classic"
		quorum  = "quorum"
		failed  = "PRECONDITION_FAILED - "
	)
	for _, c := range []struct {
		compat                         Compat
		typ                            string
		durable, exclusive, autoDelete bool
		want                           string
	}{
		{RabbitMQ310, classic, false, false, true, ""},
		{RabbitMQ310, classic, false, true, true, ""},
		{RabbitMQ310, quorum, true, false, false, ""},
		{RabbitMQ310, quorum, false, false, false, failed + "invalid property 'non-durable' for queue 'q' in vhost '/'"},
		{RabbitMQ310, quorum, false, true, false, failed + "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"},
		{RabbitMQ310, quorum, false, true, true, failed + "invalid property 'auto-delete' for queue 'q' in vhost '/'"},
		{RabbitMQ40, classic, false, false, false, ""},
		{RabbitMQ43, classic, false, false, false, "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated."},
		{RabbitMQ43, classic, false, true, false, ""},
		{RabbitMQ43, classic, true, false, true, ""},
	} {
		got := replyText(checkQueueArguments(c.compat, "/", QueueSpec{Name: "q", Durable: c.durable, Exclusive: c.exclusive, AutoDelete: c.autoDelete, Arguments: table("x-queue-type", c.typ)}))
		if first, _, _ := strings.Cut(got, "\n"); first != c.want {
			t.Errorf("%v: declare %s, durable %t, exclusive %t, auto-delete %t:\n got %q\nwant %q",
				c.compat, c.typ, c.durable, c.exclusive, c.autoDelete, got, c.want)
		}
	}
}

func TestCheckQueueArgumentsByRelease(t *testing.T) {
	for _, c := range []struct {
		compat  Compat
		args    wire.Table
		refused bool
	}{
		{RabbitMQ40, table("x-queue-mode", "lazy"), false},
		{RabbitMQ43, table("x-queue-mode", "lazy"), false},
		{RabbitMQ40, table("x-queue-mode", "eager"), true},
		{RabbitMQ43, table("x-queue-mode", "eager"), false},
		{RabbitMQ40, table("x-queue-version", int32(1)), false},
		{RabbitMQ43, table("x-queue-version", int32(1)), true},
		{RabbitMQ43, table("x-queue-version", int32(2)), false},
	} {
		if err := checkQueueArguments(c.compat, "/", QueueSpec{Name: "q", Durable: true, Arguments: c.args}); (err != nil) != c.refused {
			t.Errorf("%v: declare with %v: got %v, want refused %t", c.compat, c.args, err, c.refused)
		}
	}
}

func TestCheckConsumerArguments(t *testing.T) {
	const failed = "PRECONDITION_FAILED - invalid arg "
	for _, c := range []struct {
		typ      queue.Type
		args     wire.Table
		priority int
		want     string
	}{
		{queue.Classic, nil, 0, ""},
		{queue.Classic, table("x-priority", int32(10)), 10, ""},
		{queue.Quorum, table("x-priority", int8(-3)), -3, ""},
		{queue.Classic, table("x-priority", "high"), 0, failed + `'x-priority' for queue 'q' in vhost '/': "expected integer, got longstr"`},
		{queue.Classic, table("x-cancel-on-ha-failover", true), 0, ""},
		{queue.Classic, table("x-cancel-on-ha-failover", int32(1)), 0, failed + "'x-cancel-on-ha-failover' for queue 'q' in vhost '/': {unacceptable_type,signedint}"},
		{queue.Quorum, table("x-cancel-on-ha-failover", true), 0, failed + "'x-cancel-on-ha-failover' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"},
		{queue.Classic, table("x-stream-offset", "first"), 0, failed + "'x-stream-offset' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"},
	} {
		priority, err := CheckConsumerArguments(RabbitMQ310, "q", "/", c.typ, c.args)
		if got := replyText(err); priority != c.priority || got != c.want {
			t.Errorf("consume from a %s queue with %v:\n got %d, %q\nwant %d, %q", c.typ, c.args, priority, got, c.priority, c.want)
		}
	}
}

func TestCheckServerNamed(t *testing.T) {
	if err := CheckServerNamed(table("x-queue-type", "classic")); err != nil {
		t.Errorf("classic: got %v, want nothing", err)
	}
	got := replyText(CheckServerNamed(table("x-queue-type", "quorum")))
	if want := "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"; got != want {
		t.Errorf("quorum: got %q, want %q", got, want)
	}
}

func TestSameArguments(t *testing.T) {
	const failed = "PRECONDITION_FAILED - inequivalent arg "
	for _, c := range []struct {
		name       string
		have, want wire.Table
		text       string
	}{
		{"none", nil, nil, ""},
		{"equal", table("x-expires", int32(5)), table("x-expires", int32(5)), ""},
		{"other integer type", table("x-expires", int32(5)), table("x-expires", int64(5)), ""},
		{"other type, same value", table("x-overflow", "drop-head"), table("x-overflow", []byte("drop-head")), ""},
		{"not compared", nil, table("x-mine", int32(1), "x-delivery-limit", int32(1)), ""},
		{"other value", table("x-message-ttl", int32(5)), table("x-message-ttl", int32(6)), failed + "'x-message-ttl' for queue 'q' in vhost '/': received '6' but current is '5'"},
		{"other text", table("x-overflow", "drop-head"), table("x-overflow", "reject-publish"), failed + "'x-overflow' for queue 'q' in vhost '/': received 'reject-publish' but current is 'drop-head'"},
		{"text for an integer", table("x-max-length", int32(5)), table("x-max-length", "five"), failed + "'x-max-length' for queue 'q' in vhost '/': received 'five' but current is '5'"},
		{"void for an integer", table("x-max-length", int32(5)), table("x-max-length", nil), failed + "'x-max-length' for queue 'q' in vhost '/': received none but current is '5'"},
		{"float for an integer", table("x-max-length", int32(5)), table("x-max-length", 5.0), failed + "'x-max-length' for queue 'q' in vhost '/': received '5.0' but current is '5'"},
		{"only void wanted", nil, table("x-message-ttl", nil), failed + "'x-message-ttl' for queue 'q' in vhost '/': received the value 'undefined' of type 'void' but current is none"},
		{"only wanted", nil, table("x-message-ttl", int64(6)), failed + "'x-message-ttl' for queue 'q' in vhost '/': received the value '6' of type 'long' but current is none"},
		{"only there", table("x-overflow", "drop-head"), nil, failed + "'x-overflow' for queue 'q' in vhost '/': received none but current is the value 'drop-head' of type 'longstr'"},
		{"classic wanted", nil, table("x-queue-type", "classic"), ""},
		{"classic there", table("x-queue-type", "classic"), nil, ""},
		{"other queue type", nil, table("x-queue-type", "quorum"), failed + "'x-queue-type' for queue 'q' in vhost '/': received the value 'quorum' of type 'longstr' but current is none"},
		{"other boolean", table("x-single-active-consumer", true), table("x-single-active-consumer", false), failed + "'x-single-active-consumer' for queue 'q' in vhost '/': received 'false' but current is 'true'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := replyText(sameArguments("queue 'q' in vhost '/'", c.have, c.want, queueArguments[queue.Classic])); got != c.text {
				t.Errorf("\n got %q\nwant %q", got, c.text)
			}
		})
	}
}

func TestArgumentsOfAQueue(t *testing.T) {
	for _, c := range []struct {
		args     wire.Table
		typ      queue.Type
		priority uint8
		single   bool
	}{
		{nil, queue.Classic, 0, false},
		{table("x-queue-type", "quorum", "x-single-active-consumer", true), queue.Quorum, 0, true},
		{table("x-max-priority", int64(255), "x-single-active-consumer", false), queue.Classic, 255, false},
	} {
		if got := queueType(c.args); got != c.typ {
			t.Errorf("type of %v: got %s, want %s", c.args, got, c.typ)
		}
		if got := maxPriority(c.args); got != c.priority {
			t.Errorf("highest priority of %v: got %d, want %d", c.args, got, c.priority)
		}
		if got := SingleActive(c.args); got != c.single {
			t.Errorf("single active consumer of %v: got %t, want %t", c.args, got, c.single)
		}
	}
}
