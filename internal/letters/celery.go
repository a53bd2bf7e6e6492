package letters

import (
	"bytes"
	"encoding/json"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/jsonobject"
)

// celeryRetries is the header, and before Celery 4 the member of the body, by which Celery counts how often it has retried a task.
const celeryRetries = "retries"

// IsTask reports whether these are the headers of a Celery task, in version 2 of its protocol.
func IsTask(headers map[string]any) bool {
	return envelope.Text(headers["lang"]) != "" && envelope.Text(headers["task"]) != "" && envelope.Text(headers["id"]) != ""
}

// readCelery reads a task that a worker has rejected. Celery records how often it was retried, and not why
// it failed.
func readCelery(l Letter) (Letter, Record, bool) {
	if IsTask(l.Headers) {
		_, r, _ := readDeaths(l)
		r.By, r.ID = Celery, envelope.Text(l.Headers["id"])
		r.Attempts = max(r.Attempts, envelope.Count(l.Headers[celeryRetries])+1)
		l.Headers = Reset(l.Headers)
		return l, r, true
	}
	var old struct {
		Task, ID string
		Args     json.RawMessage
		Kwargs   json.RawMessage
		Retries  json.Number
	}
	if !bytes.Contains(l.Body, []byte(`"kwargs"`)) || json.Unmarshal(l.Body, &old) != nil || !isCall(old.Args, old.Kwargs) ||
		old.Task == "" || old.ID == "" || old.Retries == "" {
		return l, Record{}, false
	}
	_, r, _ := readDeaths(l)
	retries, _ := old.Retries.Int64()
	r.By, r.ID, r.Attempts = Celery, old.ID, max(r.Attempts, envelope.Count(retries)+1)
	if body := jsonobject.With(l.Body, celeryRetries, []byte("0")); body != nil {
		l.Body = body
	}
	return l, r, true
}
