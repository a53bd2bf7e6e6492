package layouts

import (
	"errors"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"github.com/rehop/rehop/internal/layouts"
)

// tiersFleet is a service that delays by the fixed queues of the seed tiers.
type tiersFleet struct {
	*Program
	tiers []time.Duration
}

// seedTiers are the seed's.
var seedTiers = []time.Duration{
	30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day,
}

// seedTierNames are the names of their queues.
var seedTierNames = []string{"delay.30s", "delay.1m", "delay.5m", "delay.30m", "delay.1h", "delay.3h", "delay.6h", "delay.12h", "delay.24h"}

func (f tiersFleet) tier(d time.Duration) string { return "delay." + layouts.StepName(d) }

// declare makes the tiers, each with the TTL on the queue, and the way back.
func (f tiersFleet) declare(args func(ttl time.Duration) amqp091.Table) {
	f.b.t.Helper()
	f.Exchange("delay.return", "direct", amqp091.Table{"alternate-exchange": "rehop.orphans"})
	for _, d := range f.tiers {
		f.Exchange(f.tier(d), "fanout", nil)
		f.Queue(f.tier(d), args(d))
		f.Bind(f.tier(d), "", f.tier(d))
	}
}

// quorumTier are the arguments of a tier that dead-letters at least once.
func quorumTier(ttl time.Duration) amqp091.Table {
	return amqp091.Table{
		"x-queue-type": "quorum", "x-delivery-limit": int32(1_000_000_000), "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once",
		"x-message-ttl": int32(ttl.Milliseconds()), "x-dead-letter-exchange": "delay.return",
	}
}

// classicTier are those of one that dead-letters at most once, which is what the seed has.
func classicTier(ttl time.Duration) amqp091.Table {
	return amqp091.Table{"x-queue-type": "classic", "x-message-ttl": int32(ttl.Milliseconds()), "x-dead-letter-exchange": "delay.return"}
}

// deaths is how often a message has waited: the sum over the tiers.
func (f tiersFleet) deaths(d amqp091.Delivery) (sum int64) {
	entries, _ := d.Headers["x-death"].([]any)
	for _, e := range entries {
		entry, _ := e.(amqp091.Table)
		queue, _ := entry["queue"].(string)
		if slices.ContainsFunc(f.tiers, func(d time.Duration) bool { return f.tier(d) == queue }) {
			count, _ := entry["count"].(int64)
			sum += count
		}
	}
	return sum
}

var errNoTier = errors.New("no tier is that long")

// send consumes as the seed's sender does: a message that cannot be handed over is published to the tier with the next longer delay, with all its
// headers, and acked.
func (f tiersFleet) send(queue string, times int, intervals ...time.Duration) *Consumer {
	f.b.t.Helper()
	return f.Consume(queue, times, func(ch *amqp091.Channel, d amqp091.Delivery) error {
		n := f.deaths(d)
		if n >= int64(len(intervals)) {
			return d.Ack(false)
		}
		i := slices.IndexFunc(f.tiers, func(t time.Duration) bool { return t >= intervals[n] })
		if i < 0 {
			return errNoTier
		}
		if err := ch.Publish(f.tier(f.tiers[i]), queue, false, false, again(d)); err != nil {
			return err
		}
		return d.Ack(false)
	})
}

// newestDeath is the queue in which a message died last.
func newestDeath(d amqp091.Delivery) string {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	newest, _ := deaths[0].(amqp091.Table)
	queue, _ := newest["queue"].(string)
	return queue
}
