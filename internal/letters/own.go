package letters

import "github.com/rehop/rehop/internal/envelope"

// readOwn reads rehop's record, for a message that has it in a queue that is not its failed queue.
func readOwn(l Letter) (Letter, Record, bool) {
	f := envelope.ReadDead(l.Headers, "", "")
	if !envelope.Written(l.Headers) || f.Queue == "" {
		return l, Record{}, false
	}
	return l, Record{By: Rehop, Queue: f.Queue, Exchange: f.Exchange, Key: f.Key, Attempts: f.Attempt, Kind: f.Kind, Error: f.Error,
		Stack: f.Stack, Host: f.Host, Version: f.Version, FailedAt: f.FailedAt, FirstFailed: f.FirstFailed}, true
}
