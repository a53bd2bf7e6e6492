package layouts

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// death is an entry of x-death, the broker's record of dead-letterings, in which some layouts count
// failures.
//
// RabbitMQ 3 continues to count in a record that a client sends, so a consumer that publishes a message
// again can keep the count for others. RabbitMQ 4 does not: there, only what the broker itself
// dead-letters is counted.
type death struct {
	queue, reason string
	exchange, key string // with which it was published to the queue
	count         int
	at            time.Time
}

const (
	rejected = "rejected"
	expired  = "expired"
)

// deathRecord is the header x-death with these entries, the newest first, without those that count
// nothing.
func deathRecord(deaths ...death) map[string]any {
	var entries []any
	for _, d := range deaths {
		if d.count < 1 {
			continue
		}
		entries = append(entries, map[string]any{
			"queue": d.queue, "reason": d.reason, "count": int64(d.count), "exchange": d.exchange,
			"routing-keys": []any{d.key}, "time": d.at.Truncate(time.Second), envelope.DeathMark: true,
		})
	}
	if entries == nil {
		return nil
	}
	return map[string]any{"x-death": entries}
}

// deathsIn reads the header x-death, the newest first. Any program can write headers: what is not an
// entry counts nothing.
func deathsIn(headers map[string]any) []death {
	entries, _ := headers["x-death"].([]any)
	deaths := make([]death, 0, len(entries))
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		d := death{queue: envelope.Text(entry["queue"]), reason: envelope.Text(entry["reason"]), exchange: envelope.Text(entry["exchange"])}
		if keys, _ := entry["routing-keys"].([]any); len(keys) > 0 {
			d.key = envelope.Text(keys[0])
		}
		d.count = envelope.Count(entry["count"])
		if _, counted := entry["count"]; !counted && entry != nil {
			d.count = 1 // old brokers write an entry for each death
		}
		deaths = append(deaths, d)
	}
	return deaths
}

// maxFailures limits the count of a record.
const maxFailures = 1_000_000

// deathsOf sums up the counts of the deaths that are accepted.
func deathsOf(headers map[string]any, accept func(death) bool) int {
	sum := 0
	for _, d := range deathsIn(headers) {
		if accept(d) {
			sum = min(sum+d.count, maxFailures)
		}
	}
	return sum
}

// newestDeath is the newest entry of x-death, of a queue if it is not "".
func newestDeath(headers map[string]any, queue string) (death, bool) {
	for _, d := range deathsIn(headers) {
		if queue == "" || d.queue == queue {
			return d, true
		}
	}
	return death{}, false
}
