package letters

import (
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// The headers of NServiceBus.
const (
	busException = "NServiceBus.ExceptionInfo."
	busQueue     = "NServiceBus.FailedQ"
	busTime      = "NServiceBus.TimeOfFailure"
	busMachine   = "NServiceBus.ProcessingMachine"
	busRetries   = "NServiceBus.Retries" // delayed retries, removed when the message fails; with .Timestamp, which stays
	busAtOnce    = "NServiceBus.FLRetries"
)

// readNServiceBus reads the record of NServiceBus. It does not have the number of attempts.
func readNServiceBus(l Letter) (Letter, Record, bool) {
	queue := envelope.Text(l.Headers[busQueue])
	if queue == "" {
		return l, Record{}, false
	}
	r := Record{By: "NServiceBus", Queue: queue, Kind: envelope.KindError, Attempts: envelope.Count(l.Headers[busRetries]) + 1,
		Error: failure(envelope.Text(l.Headers[busException+"ExceptionType"]), envelope.Text(l.Headers[busException+"Message"])),
		Stack: envelope.Text(l.Headers[busException+"StackTrace"]), Host: envelope.Text(l.Headers[busMachine]),
		FailedAt: busMoment(envelope.Text(l.Headers[busTime]))}
	l.Headers = without(l.Headers, func(name string) bool {
		switch name {
		case busQueue, busTime, busMachine, busRetries, busRetries + ".Timestamp", busAtOnce,
			"NServiceBus.ProcessingEndpoint", "$.diagnostics.hostid", "$.diagnostics.hostdisplayname":
			return true
		}
		return strings.HasPrefix(name, busException)
	})
	return l, r, true
}

// busMoment reads a time like 2026-01-31 15:04:05:123456 Z.
func busMoment(text string) time.Time {
	const seconds = len("2006-01-02 15:04:05")
	if len(text) <= seconds || text[seconds] != ':' {
		return time.Time{}
	}
	t, err := time.Parse("2006-01-02 15:04:05.000000 Z", text[:seconds]+"."+text[seconds+1:])
	if err != nil {
		return time.Time{}
	}
	return t
}
