package mgmt

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// What a route may answer besides these is a failure or plain bytes.
type (
	// object is a JSON object. Its keys are those of RabbitMQ.
	object map[string]any
	// list is of objects, and can be asked for by pages.
	list []object
	// status is an answer without content.
	status int
	// document is of a type that is not JSON.
	document struct {
		contentType string
		content     []byte
	}
)

// failure is an answer that says why something was not done.
type failure struct {
	status int
	kind   string
	reason any // text, or a list as RabbitMQ has it
}

func (f *failure) Error() string {
	reason, _ := f.reason.(string)
	return f.kind + ": " + reason
}

func notFound() error { return &failure{http.StatusNotFound, "Object Not Found", "Not Found"} }

func badRequest(reason any) error { return &failure{http.StatusBadRequest, "bad_request", reason} }

// unauthorised is for those who are known, unauthenticated for those who are not.
func unauthorised(reason string) error {
	return &failure{http.StatusUnauthorized, "not_authorised", reason}
}

func unauthenticated(reason string) error {
	return &failure{http.StatusUnauthorized, "not_authorized", reason}
}

// made answers a PUT.
func made(created bool) status {
	if created {
		return http.StatusCreated
	}
	return http.StatusNoContent
}

// done answers what has nothing to tell.
const done = status(http.StatusNoContent)

// write sends an answer or an error.
func write(w http.ResponseWriter, answer any) {
	code := http.StatusOK
	switch a := answer.(type) {
	case status:
		w.WriteHeader(int(a))
		return
	case document:
		w.Header().Set("Content-Type", a.contentType)
		_, _ = w.Write(a.content)
		return
	case error:
		f := asFailure(a)
		if f.kind == "not_authorized" {
			w.Header().Set("WWW-Authenticate", `Basic realm="RabbitMQ Management"`)
		}
		code, answer = f.status, object{"error": f.kind, "reason": f.shownReason()}
	case verdict:
		code, answer = a.status, a.object
	}
	content, err := json.Marshal(answer)
	if err != nil {
		code, content = http.StatusInternalServerError, []byte(`{"error":"internal_error","reason":"the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(content) // a client that has gone needs no answer
}

// shownReason disarms markup, as RabbitMQ does: reasons hold names that anybody may have chosen.
func (f *failure) shownReason() any {
	if text, ok := f.reason.(string); ok {
		return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text)
	}
	return f.reason
}

// asFailure words an error of the broker as RabbitMQ's API does.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var r *refusal
	if !errors.As(err, &r) {
		return &failure{http.StatusBadRequest, "bad_request", err.Error()}
	}
	switch r.code {
	case wire.NotFound:
		return &failure{http.StatusNotFound, "not_found", r.plain()}
	case wire.AccessRefused, wire.NotAllowed:
		return &failure{http.StatusUnauthorized, "not_authorised", "Access refused."}
	}
	return &failure{http.StatusBadRequest, "bad_request", r.plain()}
}
