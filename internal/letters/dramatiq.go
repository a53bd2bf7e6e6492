package letters

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/jsonobject"
)

// task is a message of dramatiq. Its body has everything, also its id and the number of retries.
type task struct {
	Queue   string          `json:"queue_name"`
	Actor   string          `json:"actor_name"`
	ID      string          `json:"message_id"`
	Args    json.RawMessage `json:"args"`
	Kwargs  json.RawMessage `json:"kwargs"`
	Options *struct {
		Retries   json.Number `json:"retries"`
		Traceback any         `json:"traceback"`
		Requeued  json.Number `json:"requeue_timestamp"` // Unix milliseconds
	} `json:"options"`
	Timestamp json.Number `json:"message_timestamp"`
}

// readDramatiq reads a message in a queue for dead messages (<queue>.XQ). dramatiq rejects it as it was
// delivered, so its traceback is that of the attempt before the last.
func readDramatiq(l Letter) (Letter, Record, bool) {
	var t task
	if !bytes.Contains(l.Body, []byte(`"actor_name"`)) || json.Unmarshal(l.Body, &t) != nil || !isCall(t.Args, t.Kwargs) ||
		t.Queue == "" || t.Actor == "" || t.ID == "" || t.Options == nil || t.Timestamp == "" {
		return l, Record{}, false
	}
	_, r, died := readDeaths(l)
	if !died {
		r.Kind = envelope.KindError
	}
	queue := strings.TrimSuffix(strings.TrimSuffix(t.Queue, ".DQ"), ".XQ")
	r.By, r.ID, r.Queue, r.Exchange, r.Key = "dramatiq", t.ID, queue, "", queue // it is published to the queue by name
	retries, _ := t.Options.Retries.Int64()
	r.Attempts = envelope.Count(retries) + 1
	if stack := envelope.Text(t.Options.Traceback); stack != "" {
		r.Kind, r.Stack, r.Error = envelope.KindError, stack, lastLine(stack)
	}
	if ms, err := t.Options.Requeued.Int64(); err == nil && ms > 0 && ms < maxMillis && r.FailedAt.IsZero() {
		r.FailedAt = time.UnixMilli(ms)
	}
	l.Body = within(l.Body, "options", func(options []byte) []byte {
		return jsonobject.Without(options, "retries", "traceback", "requeue_timestamp")
	})
	return l, r, true
}

// isCall reports whether these are the arguments of a call in Python: a list, and an object.
func isCall(args, kwargs json.RawMessage) bool {
	return bytes.HasPrefix(args, []byte("[")) && bytes.HasPrefix(kwargs, []byte("{"))
}

// maxMillis is the last time that is read, in the year 9999: JSON has no form for later ones.
const maxMillis = 253402300799000
