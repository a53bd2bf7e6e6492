package golden

import (
	"time"

	"github.com/rehop/rehop/internal/letters"
)

// Sample is a failed message of another program.
type Sample struct {
	Name   string
	Letter letters.Letter // in the error queue
	Record letters.Record // what is known of its failure
	// Original is the message that is replayed, without Source.
	Original letters.Letter
}

// Samples are all of them.
func Samples() []Sample {
	return []Sample{
		spring(), springStream(), springDefault(), massTransit(), massTransitSkipped(), nServiceBus(), easyNetQ(), easyNetQNewtonsoft(),
		kicks(), oldSneakers(), rascalForwarded(), rascalRejected(), dramatiq(), dramatiqFirst(), celery(), celeryOld(),
		deadLetter(), deadLetterOld(), deadLetterDelayed(), deadLetterExpired(), own(), unknown(),
	}
}

// failedAt is when all samples have failed, in whole seconds as RabbitMQ records it.
func failedAt() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// death is an entry of x-death.
func death(queue, reason, exchange, key string, count int64, at time.Time) map[string]any {
	return map[string]any{"queue": queue, "reason": reason, "exchange": exchange, "routing-keys": []any{key}, "count": count, "time": at}
}

// died are the headers of a message that RabbitMQ has dead-lettered. RabbitMQ 4 also writes those of the last death.
func died(deaths ...map[string]any) map[string]any {
	all := make([]any, len(deaths))
	for i, d := range deaths {
		all[i] = d
	}
	first, last := deaths[len(deaths)-1], deaths[0]
	return map[string]any{"x-death": all,
		"x-first-death-queue": first["queue"], "x-first-death-reason": first["reason"], "x-first-death-exchange": first["exchange"],
		"x-last-death-queue": last["queue"], "x-last-death-reason": last["reason"], "x-last-death-exchange": last["exchange"]}
}

// with adds headers.
func with(headers, more map[string]any) map[string]any {
	all := make(map[string]any, len(headers)+len(more))
	for _, some := range []map[string]any{headers, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return all
}
