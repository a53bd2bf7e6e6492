package node

import (
	"math"
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

func TestSettings(t *testing.T) {
	type policy = map[string]any
	with := func(change func(*queue.Settings)) queue.Settings {
		s := queue.Unlimited()
		change(&s)
		return s
	}
	for _, c := range []struct {
		name   string
		compat Compat
		typ    queue.Type
		args   wire.Table
		policy policy
		want   queue.Settings
	}{
		{"nothing", RabbitMQ310, queue.Classic, nil, nil, queue.Unlimited()},
		{"arguments", RabbitMQ310, queue.Classic,
			table("x-message-ttl", int32(0), "x-expires", uint8(2), "x-max-length", int64(3), "x-max-length-bytes", int16(4),
				"x-overflow", "reject-publish-dlx", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "k"), nil,
			queue.Settings{TTL: 0, Expires: 2 * time.Millisecond, MaxLength: 3, MaxBytes: 4, Overflow: queue.RejectPublishDLX,
				HasDeadLetter: true, DeadLetterKey: "k", HasDeadLetterKey: true, DeliveryLimit: -1, ConsumerTimeout: -1}},
		{"the lower", RabbitMQ310, queue.Classic, table("x-message-ttl", int32(10), "x-expires", int32(10), "x-max-length", int32(10), "x-max-length-bytes", int32(10)),
			policy{"message-ttl": int64(5), "expires": int64(5), "max-length": int64(5), "max-length-bytes": int64(20)},
			queue.Settings{TTL: 5 * time.Millisecond, Expires: 5 * time.Millisecond, MaxLength: 5, MaxBytes: 10, Overflow: queue.DropHead, DeliveryLimit: -1, ConsumerTimeout: -1}},
		{"the argument first", RabbitMQ310, queue.Classic, table("x-dead-letter-exchange", "a", "x-overflow", "reject-publish"),
			policy{"dead-letter-exchange": "b", "dead-letter-routing-key": "k", "overflow": "drop-head"},
			with(func(s *queue.Settings) {
				s.DeadLetter, s.HasDeadLetter, s.DeadLetterKey, s.HasDeadLetterKey, s.Overflow = "a", true, "k", true, queue.RejectPublish
			})},
		{"no consumer timeout in 3.10", RabbitMQ310, queue.Quorum, table("x-consumer-timeout", int32(7)), policy{"consumer-timeout": int64(5)}, queue.Unlimited()},
		{"the lower consumer timeout", RabbitMQ43, queue.Classic, table("x-consumer-timeout", int32(7)), policy{"consumer-timeout": int64(5)},
			with(func(s *queue.Settings) { s.ConsumerTimeout = 5 * time.Millisecond })},
		{"an endless lifetime", RabbitMQ310, queue.Classic, nil, policy{"message-ttl": int64(math.MaxInt64)},
			with(func(s *queue.Settings) { s.TTL = maxLifetime * time.Millisecond })},
		{"classic without delivery limit", RabbitMQ43, queue.Classic, nil, nil, queue.Unlimited()},
		{"quorum: the policy's overflow first", RabbitMQ310, queue.Quorum, table("x-overflow", "drop-head"), policy{"overflow": "reject-publish"},
			with(func(s *queue.Settings) { s.Overflow = queue.RejectPublish })},
		{"quorum: one way to refuse", RabbitMQ310, queue.Quorum, table("x-overflow", "reject-publish-dlx"), nil, queue.Unlimited()},
		{"quorum: the policy's expiry first", RabbitMQ310, queue.Quorum, table("x-expires", int32(5)), policy{"expires": int64(10)},
			with(func(s *queue.Settings) { s.Expires = 10 * time.Millisecond })},
		{"quorum: the lower expiry", RabbitMQ40, queue.Quorum, table("x-expires", int32(5)), policy{"expires": int64(10)},
			with(func(s *queue.Settings) { s.Expires, s.DeliveryLimit = 5*time.Millisecond, 20 })},
		{"quorum: no delayed retry in 4.0", RabbitMQ40, queue.Quorum, table("x-delayed-retry-type", "all", "x-delayed-retry-min", int32(5)), nil,
			with(func(s *queue.Settings) { s.DeliveryLimit = 20 })},
		{"quorum: delayed retry", RabbitMQ43, queue.Quorum, table("x-delayed-retry-type", "failed", "x-delayed-retry-min", int32(5), "x-delayed-retry-max", int32(9)),
			policy{"delayed-retry-type": "returned", "delayed-retry-min": int64(math.MaxInt64), "delayed-retry-max": int64(7)},
			with(func(s *queue.Settings) {
				s.Retry, s.DeliveryLimit = queue.Retry{Type: queue.RetryReturned, Min: 5 * time.Millisecond, Max: 7 * time.Millisecond}, 20
			})},
		{"classic: no delayed retry", RabbitMQ43, queue.Classic, nil, policy{"delayed-retry-type": "all", "delayed-retry-min": int64(5)}, queue.Unlimited()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := queueSettings(c.compat, c.typ, c.args, c.policy); got != c.want {
				t.Errorf("\n got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestDeliveryLimit(t *testing.T) {
	const none = math.MinInt64
	for _, c := range []struct {
		compat           Compat
		argument, policy int64
		want             int
	}{
		{RabbitMQ310, none, none, -1},
		{RabbitMQ310, 5, none, 5},
		{RabbitMQ310, 5, 3, 3},
		{RabbitMQ310, -1, none, 0},
		{RabbitMQ40, none, none, 20},
		{RabbitMQ40, -1, none, -1},
		{RabbitMQ40, none, -7, -1},
		{RabbitMQ40, -1, 30, 30},
		{RabbitMQ40, 30, -1, 30},
		{RabbitMQ40, 30, 25, 25},
	} {
		var args wire.Table
		policy := make(map[string]any)
		if c.argument != none {
			args = table("x-delivery-limit", c.argument)
		}
		if c.policy != none {
			policy["delivery-limit"] = c.policy
		}
		if got := queueSettings(c.compat, queue.Quorum, args, policy).DeliveryLimit; got != c.want {
			t.Errorf("%v: argument %v, policy %v: got %d, want %d", c.compat, args, policy, got, c.want)
		}
	}
}
