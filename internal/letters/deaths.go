package letters

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// death is an entry of x-death, RabbitMQ's record of dead-lettering: a queue, a reason, and how often.
type death struct {
	queue, reason string
	exchange, key string
	count         int
	at            time.Time // of the first one that it counts
}

// deathsOf are the entries of x-death, the newest first, without those of the error queue itself. Before
// RabbitMQ 3.6 there is an entry for each death, without a count.
func deathsOf(l Letter) (all []death) {
	entries, _ := l.Headers["x-death"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		d := death{queue: envelope.Text(entry["queue"]), reason: envelope.Text(entry["reason"]), exchange: envelope.Text(entry["exchange"]),
			count: max(envelope.Count(entry["count"]), 1)}
		if visible(d.queue) == "" || visible(d.reason) == "" || d.queue == l.Source {
			continue
		}
		if keys, _ := entry["routing-keys"].([]any); len(keys) > 0 {
			d.key = envelope.Text(keys[0])
		}
		d.at, _ = entry["time"].(time.Time)
		all = append(all, d)
	}
	return all
}

// delivered reports whether a consumer had the message before it died.
func (d death) delivered() bool { return d.reason == "rejected" || d.reason == "delivery_limit" }

// readDeaths reads x-death. The message failed in the queue whose consumer rejected it last. Other entries
// can be those of delay queues that it passed on its way. If no consumer had it, it failed where it first
// died: from there it may have passed several queues for dead letters.
func readDeaths(l Letter) (Letter, Record, bool) {
	all := deathsOf(l)
	if len(all) == 0 {
		return l, Record{}, false
	}
	failed := all[len(all)-1]
	for _, d := range all {
		if d.delivered() {
			failed = d
			break
		}
	}
	r := Record{By: "RabbitMQ", Queue: failed.queue, Exchange: failed.exchange, Key: failed.key, Kind: envelope.KindDead,
		Error: "dead-lettered by the broker: " + failed.reason, FirstFailed: failed.at}
	for _, d := range all {
		if d.queue != failed.queue {
			continue
		}
		if d.delivered() {
			r.Attempts = min(r.Attempts+d.count, maxAttempts)
		}
		if d.at.After(r.FailedAt) {
			r.FailedAt = d.at
		}
		if d.at.Before(r.FirstFailed) {
			r.FirstFailed = d.at
		}
	}
	return l, r, true
}

// maxAttempts limits sums and products of numbers that any program can write.
const maxAttempts = 1_000_000
