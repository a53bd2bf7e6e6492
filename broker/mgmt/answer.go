package mgmt

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// The types of answers that are not plain JSON values. A handler can also return an error.
type (
	// object is a JSON object with RabbitMQ's keys.
	object map[string]any
	// list is a JSON array that can be sorted and split into pages.
	list []object
	// status is an answer without content.
	status int
	// document is content that is not JSON.
	document struct {
		contentType string
		content     []byte
	}
)

// failure is an error with RabbitMQ's status and words.
type failure struct {
	status int
	kind   string
	reason any // text, or a list where RabbitMQ has one
}

func (f *failure) Error() string {
	reason, _ := f.reason.(string)
	return f.kind + ": " + reason
}

func notFound() error { return &failure{http.StatusNotFound, "Object Not Found", "Not Found"} }

func badRequest(reason any) error { return &failure{http.StatusBadRequest, "bad_request", reason} }

// unauthorised is for users that have logged in, unauthenticated for those that have not.
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

// done is the answer if there is nothing to return.
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
	case stream:
		a.send(w)
		return
	case error:
		f := asFailure(a)
		if f.kind == "not_authorized" {
			w.Header().Set("WWW-Authenticate", `Basic realm="RabbitMQ Management"`)
		}
		code, answer = f.status, object{"error": f.kind, "reason": f.shownReason()}
	case checkResult:
		code, answer = a.status, a.object
	}
	content, err := json.Marshal(answer)
	if err != nil {
		code, content = http.StatusInternalServerError, []byte(`{"error":"internal_error","reason":"the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(content) // fails if the client is gone
}

// shownReason escapes markup, as RabbitMQ does: reasons contain names that clients have chosen.
func (f *failure) shownReason() any {
	if text, ok := f.reason.(string); ok {
		return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text)
	}
	return f.reason
}

// asFailure converts an error of the broker to what RabbitMQ's API answers.
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
