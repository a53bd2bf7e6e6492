package letters

import (
	"net/url"
	"path"
	"strings"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/jsonobject"
)

// The headers of MassTransit.
const (
	transitReason       = "MT-Reason"
	transitFaults       = "MT-Fault-"
	transitFaultAddress = "MT-Fault-Address" // where the sender wants faults to go: not part of the record
	transitHost         = "MT-Host-"
	transitHostInfo     = "MT-Host-Info" // of the sender: not part of the record
	transitRedeliveries = "MT-Redelivery-Count"
	// transitHeaders is the member of the body with headers, if the body is an envelope.
	transitHeaders = "headers"
)

// readMassTransit reads the record of MassTransit in a queue of faults (<queue>_error), or of messages
// without a consumer (<queue>_skipped).
func readMassTransit(l Letter) (Letter, Record, bool) {
	reason := envelope.Text(l.Headers[transitReason])
	message, hasMessage := textOf(l.Headers, transitFaults+"Message")
	if reason == "" && !hasMessage {
		return l, Record{}, false
	}
	r := Record{By: "MassTransit", Kind: envelope.KindError, Error: failure(envelope.Text(l.Headers[transitFaults+"ExceptionType"]), message),
		Stack: envelope.Text(l.Headers[transitFaults+"StackTrace"]), Host: envelope.Text(l.Headers[transitHost+"MachineName"]),
		FailedAt: moment(envelope.Text(l.Headers[transitFaults+"Timestamp"])), Queue: queueOfAddress(envelope.Text(l.Headers[transitFaults+"InputAddress"]))}
	if r.Queue == "" {
		r.Queue = cutAny(l.Source, "_error", "_skipped")
	}
	// A redelivered message is retried as often as before.
	r.Attempts = min((envelope.Count(l.Headers[transitFaults+"RetryCount"])+1)*(envelope.Count(l.Headers[transitRedeliveries])+1), maxAttempts)
	if r.Error == "" && reason != "fault" {
		r.Error, r.Attempts = "no consumer has handled it: "+reason, 0
	}
	l.Headers = without(l.Headers, func(name string) bool {
		return name == transitReason || name == transitRedeliveries || strings.HasPrefix(name, transitFaults) && name != transitFaultAddress ||
			strings.HasPrefix(name, transitHost) && name != transitHostInfo
	})
	if strings.Contains(l.ContentType, "masstransit") && strings.HasSuffix(l.ContentType, "json") {
		l.Body = within(l.Body, transitHeaders, func(headers []byte) []byte { return jsonobject.Without(headers, transitRedeliveries) })
	}
	return l, r, true
}

// queueOfAddress is the queue of an address like rabbitmq://host/vhost/queue?durable=true.
func queueOfAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return ""
	}
	queue := path.Base(u.Path) // unescaped
	if queue == "." || queue == "/" {
		return ""
	}
	return queue
}

// cutAny is a name without the first of these suffixes that it has, or "" if it has none.
func cutAny(name string, suffixes ...string) string {
	for _, suffix := range suffixes {
		if queue, has := strings.CutSuffix(name, suffix); has {
			return queue
		}
	}
	return ""
}

// within is the object in body with a member that is an object changed. Without such a member it is body itself.
func within(body []byte, name string, change func([]byte) []byte) []byte {
	inner, ok := jsonobject.Member(body, name)
	if !ok || !jsonobject.Is(inner) {
		return body
	}
	return jsonobject.With(body, name, change(inner))
}
