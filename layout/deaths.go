package layout

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// death is an entry of x-death, the broker's record of dead-letterings, in which some layouts count.
//
// RabbitMQ 3 takes up a record that a client sends and counts on, so a consumer that publishes a message
// again can keep the count for others. RabbitMQ 4 does not: there, only what the broker itself
// dead-letters is counted.
type death struct {
	queue, reason string
	exchange, key string
	count         int
	at            time.Time
}

const (
	rejected = "rejected"
	expired  = "expired"
)

// deathRecord is the header x-death with these entries, the newest first. Entries that count nothing are
// left out.
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

// deathsOf sums up the counts of x-death entries that are accepted. Old brokers write no count, and an
// entry for each death.
func deathsOf(headers map[string]any, accept func(queue, reason string) bool) int {
	entries, _ := headers["x-death"].([]any)
	sum := 0
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		if !ok || !accept(envelope.Text(entry["queue"]), envelope.Text(entry["reason"])) {
			continue
		}
		if _, counted := entry["count"]; !counted {
			sum++
			continue
		}
		sum += envelope.Count(entry["count"])
	}
	return min(sum, maxFailures)
}

// maxFailures bounds what a record is believed: anybody can write headers.
const maxFailures = 1_000_000

// deathIn is the newest entry of a queue.
func deathIn(headers map[string]any, queue string) (map[string]any, bool) {
	entries, _ := headers["x-death"].([]any)
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok && envelope.Text(entry["queue"]) == queue {
			return entry, true
		}
	}
	return nil, false
}

// newestDeath is the queue that dead-lettered a message last, "" if none did.
func newestDeath(headers map[string]any) string {
	entries, _ := headers["x-death"].([]any)
	if len(entries) == 0 {
		return ""
	}
	entry, _ := entries[0].(map[string]any)
	return envelope.Text(entry["queue"])
}
