package letters

import (
	"strings"

	"github.com/rehop/rehop/internal/envelope"
)

// The headers of Spring AMQP (RepublishMessageRecoverer) and of Spring Cloud Stream (republishToDlq).
const (
	springPrefix   = "x-exception-"
	springError    = "x-exception-message"
	springStack    = "x-exception-stacktrace"
	springExchange = "x-original-exchange"
	springKey      = "x-original-routingKey"
	// springCount is how often Spring has published the message again.
	springCount = "retry-count"
)

// readSpring reads the record of Spring. It has the exchange and the key of the message, and not its queue.
// That is known if it was published to the queue by name, and from the name that Spring Cloud Stream gives
// to an error queue.
func readSpring(l Letter) (Letter, Record, bool) {
	exchange, hasExchange := textOf(l.Headers, springExchange)
	key, hasKey := textOf(l.Headers, springKey)
	if !hasExchange || !hasKey {
		return l, Record{}, false
	}
	r := Record{By: "Spring", Exchange: exchange, Key: key, Kind: envelope.KindError, Error: envelope.Text(l.Headers[springError]),
		Stack: envelope.Text(l.Headers[springStack]), Attempts: max(envelope.Count(l.Headers[springCount]), 1)}
	if r.Error == "" {
		r.Error = firstLine(r.Stack)
	}
	if queue, named := strings.CutSuffix(l.Source, ".dlq"); named {
		r.Queue = queue
	} else if exchange == "" {
		r.Queue = key
	} else {
		r.Published = true
	}
	l.Headers = without(l.Headers, func(name string) bool {
		return strings.HasPrefix(name, springPrefix) || name == springExchange || name == springKey || name == springCount
	})
	return l, r, true
}

// textOf is a header, if it is text.
func textOf(headers map[string]any, name string) (string, bool) {
	switch headers[name].(type) {
	case string, []byte:
		return envelope.Text(headers[name]), true
	}
	return "", false
}
