package letters

import (
	"maps"

	"github.com/rehop/rehop/internal/envelope"
)

// Reset are headers without what rascal and Celery count failures by.
//
// rascal records in its header what it has done with a message (recovery), and whether to reject it the next time (immediateNack) unless its x-death
// has grown since. A replay removes x-death, so with that record the message would go straight back to the failed queue. The rest of the header is kept:
// it may have the origin of the message, and how it is encrypted. For Celery, the count of retries is reset.
func Reset(headers map[string]any) map[string]any {
	kept := maps.Clone(headers)
	if _, counted := kept[celeryRetries]; counted && IsTask(kept) {
		kept[celeryRetries] = int32(0)
	}
	if record, ok := kept[rascalHeader].(map[string]any); ok {
		record = maps.Clone(record)
		delete(record, "recovery")
		delete(record, "error")
		delete(record, "redeliveries")
		if kept[rascalHeader] = record; len(record) == 0 {
			delete(kept, rascalHeader)
		}
	}
	return kept
}

// Rejected adds to the failure of a rejected message what the consumer's library has written into its headers.
func Rejected(f envelope.Failure, headers map[string]any) envelope.Failure {
	deaths := envelope.Deaths(headers)
	if f.Kind != envelope.KindDead || len(deaths) == 0 || deaths[0].Reason != "rejected" {
		return f
	}
	if IsTask(headers) {
		f.Attempt = max(f.Attempt, envelope.Count(headers[celeryRetries])+1)
		return f
	}
	record, _ := headers[rascalHeader].(map[string]any)
	recovery, _ := record["recovery"].(map[string]any)
	own, ok := recovery[deaths[0].Queue].(map[string]any)
	if !ok {
		return f
	}
	if reason, _ := record["error"].(map[string]any); envelope.Text(reason["message"]) != "" {
		f.Kind, f.Error = envelope.KindError, envelope.Text(reason["message"])
	}
	// A message that is marked to be rejected (immediateNack) has lost its count.
	if n := envelope.Count(own["republished"]) + envelope.Count(own["forwarded"]); n > 0 {
		f.Attempt = max(f.Attempt, n+1)
	}
	// rascal has republished it, to the queue or to its own exchange. If rehop has recorded where it came from, that record is right.
	if key := envelope.Text(record["originalRoutingKey"]); key != "" && !envelope.Written(headers) {
		f.Exchange, f.Key = envelope.Text(record["originalExchange"]), key
	}
	return f
}
