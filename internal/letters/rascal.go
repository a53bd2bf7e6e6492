package letters

import "github.com/rehop/rehop/internal/envelope"

// rascalHeader is the header in which rascal keeps its record of a message.
const rascalHeader = "rascal"

// readRascal reads the record of rascal for a message that it has forwarded to an error queue, or that it
// has rejected after it had republished it.
func readRascal(l Letter) (Letter, Record, bool) {
	record, _ := l.Headers[rascalHeader].(map[string]any)
	queue := envelope.Text(record["originalQueue"])
	recovery, _ := record["recovery"].(map[string]any)
	own, ok := recovery[queue].(map[string]any)
	if queue == "" || !ok {
		return l, Record{}, false
	}
	reason, _ := record["error"].(map[string]any)
	r := Record{Queue: queue, Kind: envelope.KindError, Attempts: envelope.Count(own["republished"]) + envelope.Count(own["forwarded"])}
	if _, died, ok := readDeaths(l); ok && died.Queue == queue {
		r = died
		// It was handled once more after it was republished. One that was marked to be rejected has lost its count.
		r.Attempts = max(r.Attempts, envelope.Count(own["republished"])+envelope.Count(own["forwarded"])+1)
	}
	r.By = "rascal"
	if message := envelope.Text(reason["message"]); message != "" {
		r.Kind, r.Error = envelope.KindError, failure(envelope.Text(reason["code"]), message)
	}
	if key := envelope.Text(record["originalRoutingKey"]); key != "" {
		r.Exchange, r.Key = envelope.Text(record["originalExchange"]), key
	}
	l.Headers = Reset(l.Headers)
	return l, r, true
}
